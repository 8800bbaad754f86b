//! The run-length coded form: reading runs, and raising one register inside them.

use super::{Corrupt, HEADER_BYTES, REGISTERS, mark_stale};

/// Largest register value the sparse form can write.
const SPARSE_VALUE_MAX: u8 = 32;
const SPARSE_VALUE_RUN_MAX: usize = 4;
const SPARSE_ZERO_RUN_MAX: usize = 64;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Opcode {
    Zeros,
    LongZeros,
    Value,
}

/// Reads the opcode at `at`: register value, run length, kind. A cut-off second byte counts as zero.
fn opcode_at(value: &[u8], at: usize) -> (u8, usize, Opcode) {
    let byte = value[at];
    if byte & 0x80 != 0 {
        ((byte >> 2 & 0x1f) + 1, usize::from(byte & 3) + 1, Opcode::Value)
    } else if byte & 0x40 == 0 {
        (0, usize::from(byte) + 1, Opcode::Zeros)
    } else {
        let low = value.get(at + 1).copied().unwrap_or(0);
        (
            0,
            (usize::from(byte & 0x3f) << 8 | usize::from(low)) + 1,
            Opcode::LongZeros,
        )
    }
}

pub(super) fn runs(value: &[u8]) -> impl Iterator<Item = (u8, usize, Opcode)> {
    let mut at = HEADER_BYTES;
    std::iter::from_fn(move || {
        if at >= value.len() {
            return None;
        }
        let found = opcode_at(value, at);
        at += if found.2 == Opcode::LongZeros { 2 } else { 1 };
        Some(found)
    })
}

/// Shows every non-zero register of a sparse value.
pub(super) fn for_each_register(value: &[u8], mut seen: impl FnMut(usize, u8)) -> Result<(), Corrupt> {
    let mut index = 0;
    for (register, run, opcode) in runs(value) {
        if opcode == Opcode::Value {
            if index + run > REGISTERS {
                return Err(Corrupt);
            }
            (index..index + run).for_each(|at| seen(at, register));
        }
        index += run;
    }
    if index == REGISTERS { Ok(()) } else { Err(Corrupt) }
}

pub(super) fn push_zeros(out: &mut Vec<u8>, run: usize) {
    if run == 0 {
        return;
    }
    let coded = run - 1;
    if run > SPARSE_ZERO_RUN_MAX {
        out.extend_from_slice(&[(coded >> 8) as u8 | 0x40, coded as u8]);
    } else {
        out.push(coded as u8);
    }
}

fn value_opcode(register: u8, run: usize) -> u8 {
    (register - 1) << 2 | (run - 1) as u8 | 0x80
}

fn push_values(out: &mut Vec<u8>, register: u8, run: usize) {
    if run > 0 {
        out.push(value_opcode(register, run));
    }
}

pub(super) enum Raised {
    Unchanged,
    Changed,
    NeedsDense,
}

/// Raises one register inside the runs: finds the run that covers it, cuts the
/// run in up to three, then joins equal neighbours nearby.
pub(super) fn raise_sparse(
    value: &mut Vec<u8>,
    index: usize,
    run: u8,
    bytes_max: usize,
) -> Result<Raised, Corrupt> {
    if run > SPARSE_VALUE_MAX {
        return Ok(Raised::NeedsDense);
    }
    let (mut at, mut previous, mut first) = (HEADER_BYTES, HEADER_BYTES, 0);
    let (register, length, opcode) = loop {
        if at >= value.len() {
            return Err(Corrupt);
        }
        let found = opcode_at(value, at);
        if index < first + found.1 {
            break found;
        }
        first += found.1;
        previous = at;
        at += if found.2 == Opcode::LongZeros { 2 } else { 1 };
    };
    if opcode == Opcode::Value && register >= run {
        return Ok(Raised::Unchanged);
    }
    if length == 1 && opcode != Opcode::LongZeros {
        value[at] = value_opcode(run, 1);
    } else {
        let (left, right) = (index - first, first + length - 1 - index);
        let mut cut = Vec::with_capacity(5);
        if opcode == Opcode::Value {
            push_values(&mut cut, register, left);
            push_values(&mut cut, run, 1);
            push_values(&mut cut, register, right);
        } else {
            push_zeros(&mut cut, left);
            push_values(&mut cut, run, 1);
            push_zeros(&mut cut, right);
        }
        let old = if opcode == Opcode::LongZeros { 2 } else { 1 };
        let grown = value.len() + cut.len() - old;
        if grown > value.len() && grown > bytes_max {
            return Ok(Raised::NeedsDense);
        }
        let end = (at + old).min(value.len());
        value.splice(at..end, cut);
        // Where the last opcode lacks its second byte, Redis counts it all the same.
        value.truncate(grown);
    }
    join_neighbours(value, previous);
    mark_stale(value);
    Ok(Raised::Changed)
}

/// Joins value runs of equal registers among the five opcodes from `at` on.
fn join_neighbours(value: &mut Vec<u8>, mut at: usize) {
    for _ in 0..5 {
        if at >= value.len() {
            return;
        }
        let (register, length, opcode) = opcode_at(value, at);
        if opcode != Opcode::Value {
            at += if opcode == Opcode::LongZeros { 2 } else { 1 };
            continue;
        }
        if at + 1 < value.len() {
            let (next, next_length, next_opcode) = opcode_at(value, at + 1);
            let joined = length + next_length;
            if next_opcode == Opcode::Value && next == register && joined <= SPARSE_VALUE_RUN_MAX {
                value[at] = value_opcode(register, joined);
                value.remove(at + 1);
                continue;
            }
        }
        at += 1;
    }
}
