//! The scripts in a few lines: what a server stores and how it answers.

use nagaya_ids::pool::{Phase, Refusal};

/// Stand-in for 2^20: more than are granted in a search.
const FENCE_JUMP: u32 = 20;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Record {
    /// 0 if the number was never given out.
    pub(crate) name: u8,
    /// 0 if it was released.
    pub(crate) token: u8,
    pub(crate) fence: u32,
    pub(crate) run: u8,
    pub(crate) open: bool,
    /// The token of the last holder, kept after a release.
    pub(crate) last_token: u8,
    /// It was released by one that knew the last time it used.
    pub(crate) exact: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Store {
    pub(crate) records: Vec<Record>,
    counter: u32,
    counter_run: u8,
}

/// Who asks a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Caller {
    pub(crate) name: u8,
    pub(crate) token: u8,
    /// Token of a process that is known to be over; 0 for none.
    pub(crate) proof: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Given {
    pub(crate) number: u8,
    pub(crate) fence: u32,
    pub(crate) at_once: bool,
}

impl Store {
    pub(crate) fn of(numbers: u8) -> Store {
        Store {
            records: vec![Record::default(); numbers.into()],
            ..Store::default()
        }
    }

    pub(crate) fn flush(&mut self) {
        *self = Store::of(u8::try_from(self.records.len()).unwrap());
    }

    /// `pick` is the number that is free for a stranger; which one that may be is left open, because
    /// safety must not depend on reservations. `clock` is the server's, in fences: it did not go back
    /// behind any grant that was lost.
    pub(crate) fn get(
        &mut self,
        caller: Caller,
        run: u8,
        clock: u32,
        pick: u8,
        trust_any_run: bool,
    ) -> Given {
        let find = |test: &dyn Fn(&Record) -> bool| self.records.iter().position(test);
        let own = find(&|record| record.name != 0 && record.token == caller.token);
        let own = own.or_else(|| find(&|record| record.name == caller.name));
        let number = own.unwrap_or(pick.into());
        let record = &mut self.records[number];
        let proved = caller.proof != 0 && record.name == caller.name && record.last_token == caller.proof;
        let over = (record.token == 0 && record.exact) || proved;
        let same_run = record.run == run || trust_any_run;
        let at_once = record.name != 0 && over && same_run && record.open;
        self.counter = if self.counter_run == run {
            self.counter + 1
        } else {
            (self.counter + FENCE_JUMP).max(clock)
        };
        self.counter_run = run;
        *record = Record {
            name: caller.name,
            token: caller.token,
            fence: self.counter,
            run,
            open: at_once,
            last_token: caller.token,
            exact: false,
        };
        Given {
            number: u8::try_from(number).unwrap(),
            fence: self.counter,
            at_once,
        }
    }

    /// Whether the run changed, or why it is refused.
    pub(crate) fn extend(
        &mut self,
        caller: Caller,
        run: u8,
        seen_run: u8,
        (number, fence): (u8, u32),
        phase: Phase,
    ) -> Result<bool, Refusal> {
        let record = &mut self.records[usize::from(number)];
        if record.name == 0 || record.token != caller.token || record.fence != fence {
            let same_name = record.name == caller.name && record.token != 0;
            return Err(Refusal::Robbed { same_name });
        }
        let changed = record.run != run || seen_run != run;
        if changed && phase != Phase::InUse {
            return Err(Refusal::RunChanged);
        }
        record.run = run;
        if changed {
            record.open = false;
        } else if matches!(phase, Phase::InUse | Phase::DelayOver) {
            record.open = true;
        }
        Ok(changed)
    }

    pub(crate) fn release(&mut self, caller: Caller, run: u8, (number, fence): (u8, u32), exact: bool) {
        let record = &mut self.records[usize::from(number)];
        if record.name != 0 && record.token == caller.token && record.fence == fence {
            record.open &= record.run == run;
            record.token = 0;
            record.exact = exact;
            record.run = run;
        }
    }
}
