//! A server: its lease, and what it has sent.

use nagaya_tiering::protocol::Touched;

use super::scenario::{Guards, Operation, Registration, Scenario};
use super::world::{Cell, Life, World, Wrong};

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Server {
    /// Ticks since the sending of the touch that gave the lease; nothing without one. Kept until the last
    /// command that was sent under it has landed.
    lease_age: Option<u8>,
    registered: [bool; 2],
    /// The connection: what was sent and has not landed, in order.
    line: Vec<Sent>,
    /// A touch whose reply is on its way.
    reply: Option<Reply>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Sent {
    command: Command,
    age: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Command {
    Touch,
    Register(u8),
    /// The halves of a registration that is not atomic.
    RegisterDirty(u8),
    RegisterIndex,
    Write(u8, Operation),
    /// A write that registers itself.
    Script(u8, Operation),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Reply {
    is_granted: bool,
    touch_age: u8,
}

impl Server {
    pub(crate) fn tick(&mut self, scenario: &Scenario) {
        for sent in &mut self.line {
            sent.age += 1;
        }
        // Ages beyond this make no difference.
        let longest = scenario.lease + scenario.delay;
        if let Some(age) = &mut self.lease_age {
            *age += 1;
        }
        self.lease_age = self.lease_age.filter(|age| *age < longest);
        if let Some(reply) = &mut self.reply {
            reply.touch_age = (reply.touch_age + 1).min(longest);
        }
    }

    /// Time stands still while a command is due.
    pub(crate) fn lets_time_pass(&self, scenario: &Scenario) -> bool {
        self.line.iter().all(|sent| sent.age < scenario.delay)
    }

    fn may_send(&self, scenario: &Scenario) -> bool {
        self.lease_age.is_some_and(|age| age < scenario.lease)
    }

    /// Returns whether a read that was sent under the lease may land now.
    pub(crate) fn may_read(&self, scenario: &Scenario) -> bool {
        self.lease_age
            .is_some_and(|age| age < scenario.lease + scenario.delay)
    }

    /// Returns whether half a registration is still to land.
    pub(crate) fn announces(&self) -> bool {
        self.line
            .iter()
            .any(|sent| matches!(sent.command, Command::RegisterDirty(_) | Command::RegisterIndex))
    }

    pub(crate) fn can_touch(&self) -> bool {
        self.reply.is_none() && !self.line.iter().any(|sent| sent.command == Command::Touch)
    }

    pub(crate) fn can_write(&self, scenario: &Scenario) -> bool {
        self.may_send(scenario)
    }

    pub(crate) fn can_land(&self) -> bool {
        !self.line.is_empty()
    }

    pub(crate) fn can_take_reply(&self) -> bool {
        self.reply.is_some()
    }

    pub(crate) fn has_lease(&self) -> bool {
        self.lease_age.is_some()
    }

    pub(crate) fn is_idle(&self) -> bool {
        *self == Server::default()
    }

    pub(crate) fn touch(&mut self) {
        self.send(Command::Touch);
    }

    /// Sends a write with its registration ahead of it, unless the lease has it.
    pub(crate) fn write(&mut self, key: u8, operation: Operation, guards: &Guards) {
        if !std::mem::replace(&mut self.registered[usize::from(key)], true) {
            match guards.registration {
                Registration::Atomic => self.send(Command::Register(key)),
                Registration::DirtyFirst => {
                    self.send(Command::RegisterDirty(key));
                    self.send(Command::RegisterIndex);
                }
                Registration::IndexFirst => {
                    self.send(Command::RegisterIndex);
                    self.send(Command::RegisterDirty(key));
                }
            }
        }
        self.send(Command::Write(key, operation));
    }

    /// Sends a script that writes, with nothing ahead of it.
    pub(crate) fn run_script(&mut self, key: u8, operation: Operation) {
        self.send(Command::Script(key, operation));
    }

    fn send(&mut self, command: Command) {
        self.line.push(Sent { command, age: 0 });
    }

    /// Takes the reply to a touch.
    pub(crate) fn take_reply(&mut self, scenario: &Scenario, guards: &Guards) {
        let Some(Reply {
            is_granted,
            touch_age,
        }) = self.reply.take()
        else {
            return;
        };
        let age = if guards.lease_from_sending { touch_age } else { 0 };
        if is_granted && age < scenario.lease {
            self.lease_age = Some(age);
            if guards.registrations_end_with_lease {
                self.registered = [false; 2];
            }
        }
    }

    /// Loses the connection and everything on it.
    pub(crate) fn cut(&mut self, guards: &Guards) {
        self.line.clear();
        self.reply = None;
        if guards.leases_dropped_on_cut {
            self.lease_age = None;
            self.registered = [false; 2];
        }
    }
}

impl World {
    /// Lets the next command of a server run.
    pub(crate) fn land(&mut self, server: usize, guards: &Guards) {
        let Sent { command, age } = self.servers[server].line.remove(0);
        match command {
            Command::Touch => {
                let touched = self.node.touch(guards);
                let is_granted = touched == Touched::Granted;
                self.servers[server].reply = Some(Reply {
                    is_granted,
                    touch_age: age,
                });
            }
            Command::Register(key) => {
                self.register(key, guards);
                self.node.tag.in_index = true;
            }
            Command::RegisterDirty(key) => self.register(key, guards),
            Command::RegisterIndex => self.node.tag.in_index = true,
            Command::Write(key, operation) => self.execute(usize::from(key), operation, guards),
            Command::Script(key, operation) => {
                let is_kept = !guards.scripts_replace_tokens && self.node.tag.dirty.contains_key(&key);
                if guards.scripts_register && !is_kept {
                    self.register(key, guards);
                    self.node.tag.in_index = true;
                }
                self.execute(usize::from(key), operation, guards);
            }
        }
    }

    fn register(&mut self, key: u8, guards: &Guards) {
        let token = self.draw_token();
        self.node.register(key, token, guards);
    }

    fn execute(&mut self, key: usize, operation: Operation, guards: &Guards) {
        if !self.node.is_live(guards) {
            self.wrong = Some(Wrong::Write);
        }
        self.orders += 1;
        let life = match operation {
            Operation::Set => Life::Lasting,
            Operation::Delete => Life::Absent,
            Operation::SetExpiring => Life::Left(3),
        };
        let cell = Cell {
            order: self.orders,
            life,
        };
        self.node.cells[key] = cell;
        self.truth[key] = cell;
    }
}
