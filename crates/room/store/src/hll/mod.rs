//! HyperLogLog strings, byte for byte as Redis keeps them.
//!
//! A value is a plain string: 16 bytes of header (`HYLL`, encoding, three zero
//! bytes, cached count in little endian whose top bit means "stale"), then 16384
//! registers of 6 bits. Registers are packed (dense, 12288 bytes) or run-length
//! coded (sparse): `00nnnnnn` is n+1 zeros, `01nnnnnn nnnnnnnn` a long run of
//! zeros, `1vvvvvnn` n+1 registers of value v+1. The low 14 bits of an element's
//! hash pick a register, which keeps the longest run of low zero bits seen in the
//! rest. The count follows from the histogram of registers (Ertl, 2017).

mod estimate;
mod sparse;

use std::fmt::Write;

use estimate::{estimate, index_and_run};
use sparse::{Opcode, Raised, for_each_register, push_zeros, raise_sparse, runs};

/// Bits of the hash that pick a register.
const INDEX_BITS: u32 = 14;
/// Bits of the hash whose zero run is measured.
const RUN_BITS: usize = 64 - INDEX_BITS as usize;
/// Number of registers.
pub const REGISTERS: usize = 1 << INDEX_BITS;
const REGISTER_MAX: u8 = 63;
const HEADER_BYTES: usize = 16;
const DENSE_BYTES: usize = HEADER_BYTES + REGISTERS * 6 / 8;
const DENSE: u8 = 0;
const SPARSE: u8 = 1;
/// Where the encoding byte lies in the header.
const ENCODING_AT: usize = 4;
/// The header byte whose top bit says the cached count is stale.
const STALE_AT: usize = 15;

/// The register runs of a sparse value do not add up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Corrupt;

/// Returns an empty value: one run of zeros.
pub fn empty() -> Vec<u8> {
    let mut value = vec![0; HEADER_BYTES];
    value[..4].copy_from_slice(b"HYLL");
    value[ENCODING_AT] = SPARSE;
    push_zeros(&mut value, REGISTERS);
    value
}

/// Returns whether a string looks like one of ours; the register runs are not checked.
pub fn is_valid(value: &[u8]) -> bool {
    value.len() >= HEADER_BYTES
        && value.starts_with(b"HYLL")
        && match value[ENCODING_AT] {
            DENSE => value.len() == DENSE_BYTES,
            SPARSE => true,
            _ => false,
        }
}

/// Returns whether a valid value is dense.
pub fn is_dense(value: &[u8]) -> bool {
    value[ENCODING_AT] == DENSE
}

/// Adds an element; true when a register grew.
///
/// The cached count is left alone unless a sparse register was written; the
/// caller marks it stale once after adding all its elements.
pub fn add(value: &mut Vec<u8>, element: &[u8], sparse_bytes_max: usize) -> Result<bool, Corrupt> {
    let (index, run) = index_and_run(element);
    raise(value, index, run, sparse_bytes_max)
}

/// Returns the cached count unless it is stale.
pub fn cached_count(value: &[u8]) -> Option<u64> {
    let bytes = value[8..HEADER_BYTES]
        .try_into()
        .expect("the header holds eight bytes here");
    let fresh = value[STALE_AT] & 0x80 == 0;
    fresh.then(|| u64::from_le_bytes(bytes))
}

/// Writes the cached count.
pub fn cache_count(value: &mut [u8], count: u64) {
    value[8..HEADER_BYTES].copy_from_slice(&count.to_le_bytes());
}

/// Marks the cached count stale.
pub fn mark_stale(value: &mut [u8]) {
    value[STALE_AT] |= 0x80;
}

/// Estimates how many different elements were added.
pub fn count(value: &[u8]) -> Result<u64, Corrupt> {
    let mut histogram = [0u32; 64];
    if is_dense(value) {
        let registers = &value[HEADER_BYTES..];
        for group in registers.as_chunks::<3>().0 {
            let word = u32::from_le_bytes([group[0], group[1], group[2], 0]);
            for shift in [0, 6, 12, 18] {
                histogram[(word >> shift) as usize & 63] += 1;
            }
        }
    } else {
        let mut covered = 0;
        for (register, run, _) in runs(value) {
            histogram[usize::from(register)] = histogram[usize::from(register)].wrapping_add(run as u32);
            covered += run;
        }
        if covered != REGISTERS {
            return Err(Corrupt);
        }
    }
    Ok(estimate(&histogram))
}

/// Turns a sparse value into a dense one; false when it already was.
pub fn make_dense(value: &mut Vec<u8>) -> Result<bool, Corrupt> {
    if is_dense(value) {
        return Ok(false);
    }
    let mut dense = vec![0; DENSE_BYTES];
    dense[..HEADER_BYTES].copy_from_slice(&value[..HEADER_BYTES]);
    dense[ENCODING_AT] = DENSE;
    let registers = &mut dense[HEADER_BYTES..];
    for_each_register(value, |index, register| set_packed(registers, index, register))?;
    *value = dense;
    Ok(true)
}

/// Raises every register of a value to at least those of a union.
pub fn raise_all(value: &mut Vec<u8>, union: &Union, sparse_bytes_max: usize) -> Result<(), Corrupt> {
    for (index, &run) in union.registers.iter().enumerate() {
        if run > 0 {
            raise(value, index, run, sparse_bytes_max)?;
        }
    }
    Ok(())
}

/// Returns the registers of a dense value, one per item.
pub fn dense_registers(value: &[u8]) -> impl Iterator<Item = u8> {
    (0..REGISTERS).map(|index| get_packed(&value[HEADER_BYTES..], index))
}

/// Writes the runs of a sparse value as text: `z:` and `Z:` zeros, `v:value,length`.
pub fn sparse_text(value: &[u8]) -> String {
    let mut text = String::new();
    for (register, run, opcode) in runs(value) {
        let gap = if text.is_empty() { "" } else { " " };
        let written = match opcode {
            Opcode::Value => write!(text, "{gap}v:{register},{run}"),
            Opcode::Zeros => write!(text, "{gap}z:{run}"),
            Opcode::LongZeros => write!(text, "{gap}Z:{run}"),
        };
        written.expect("writing to a string never fails");
    }
    text
}

/// The element-wise maximum of the registers of several values.
pub struct Union {
    registers: Box<[u8; REGISTERS]>,
}

impl Default for Union {
    fn default() -> Self {
        Union {
            registers: Box::new([0; REGISTERS]),
        }
    }
}

impl Union {
    /// Takes in one more value.
    pub fn add(&mut self, value: &[u8]) -> Result<(), Corrupt> {
        let registers = &mut self.registers;
        if is_dense(value) {
            for (own, other) in registers.iter_mut().zip(dense_registers(value)) {
                *own = (*own).max(other);
            }
            return Ok(());
        }
        for_each_register(value, |index, register| {
            registers[index] = registers[index].max(register)
        })
    }

    /// Estimates how many different elements were added to any of the values.
    pub fn count(&self) -> u64 {
        let mut histogram = [0u32; 64];
        self.registers
            .iter()
            .for_each(|&register| histogram[usize::from(register)] += 1);
        estimate(&histogram)
    }
}

/// Checks register packing and the error of the estimate on random data, for PFSELFTEST.
pub fn self_test(seed: u64, sparse_bytes_max: usize) -> Result<(), String> {
    let mut rng = crate::rng::Rng::seeded(seed);
    let mut packed = vec![0; DENSE_BYTES - HEADER_BYTES];
    for _ in 0..50 {
        let plain: Vec<u8> = (0..REGISTERS)
            .map(|_| rng.next_u64() as u8 & REGISTER_MAX)
            .collect();
        plain
            .iter()
            .enumerate()
            .for_each(|(index, &register)| set_packed(&mut packed, index, register));
        for (index, &wanted) in plain.iter().enumerate() {
            let found = get_packed(&packed, index);
            if found != wanted {
                return Err(format!("Register {index} should be {wanted} but is {found}"));
            }
        }
    }
    let (mut dense, mut sparse) = (empty(), empty());
    make_dense(&mut dense).map_err(|Corrupt| "an empty value is corrupt".to_owned())?;
    let (salt, mut checkpoint) = (rng.next_u64(), 1u64);
    for n in 1..=1_000_000u64 {
        let element = (n ^ salt).to_ne_bytes();
        for value in [&mut dense, &mut sparse] {
            add(value, &element, sparse_bytes_max).map_err(|Corrupt| "a value became corrupt".to_owned())?;
        }
        if n != checkpoint {
            continue;
        }
        if (n as usize) < sparse_bytes_max / 2 && is_dense(&sparse) {
            return Err("sparse encoding not used".to_owned());
        }
        let found = count(&dense);
        if found != count(&sparse) {
            return Err("dense/sparse disagree".to_owned());
        }
        // Six standard errors; ten elements may collide by bad luck.
        let allowed = if n == 10 {
            1
        } else {
            (1.04 / 128.0 * 6.0 * n as f64).ceil() as u64
        };
        let error = found.unwrap_or(0).abs_diff(n);
        if error > allowed {
            return Err(format!("Too big error. card:{n} abserr:{error}"));
        }
        checkpoint *= 10;
    }
    Ok(())
}

fn get_packed(registers: &[u8], index: usize) -> u8 {
    let (byte, shift) = (index * 6 / 8, index * 6 % 8);
    // The last register ends with its byte: what follows counts as zero.
    let next = registers.get(byte + 1).copied().unwrap_or(0);
    (u16::from_le_bytes([registers[byte], next]) >> shift) as u8 & REGISTER_MAX
}

fn set_packed(registers: &mut [u8], index: usize, register: u8) {
    let (byte, shift) = (index * 6 / 8, index * 6 % 8);
    let mask = (u16::from(REGISTER_MAX) << shift).to_le_bytes();
    let bits = (u16::from(register) << shift).to_le_bytes();
    registers[byte] = registers[byte] & !mask[0] | bits[0];
    if let Some(next) = registers.get_mut(byte + 1) {
        *next = *next & !mask[1] | bits[1];
    }
}

/// Raises one register; true when it grew.
fn raise(value: &mut Vec<u8>, index: usize, run: u8, sparse_bytes_max: usize) -> Result<bool, Corrupt> {
    if value[ENCODING_AT] == SPARSE {
        match raise_sparse(value, index, run, sparse_bytes_max)? {
            Raised::Unchanged => return Ok(false),
            Raised::Changed => return Ok(true),
            Raised::NeedsDense => make_dense(value)?,
        };
    }
    let registers = &mut value[HEADER_BYTES..];
    let grows = run > get_packed(registers, index);
    if grows {
        set_packed(registers, index, run);
    }
    Ok(grows)
}

#[cfg(test)]
mod tests;
