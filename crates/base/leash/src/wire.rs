//! What supervisor and watchdog say to each other, over a socket pair between the two.
//!
//! A frame is its length (four bytes, little endian) and a list of words, each with its length before it. The first
//! word is the kind. Descriptors travel beside the first byte of the frame that names them.

use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use tokio::io::{AsyncWriteExt, Interest};
use tokio::net::UnixStream;

/// The longest frame, in bytes: room for the arguments and variables of a command.
const FRAME_MAX: usize = 4 << 20;
const READ_SIZE: usize = 16 << 10;
/// Standard input, output and error.
const DESCRIPTORS: usize = 3;

/// A group's number in the conversation, chosen by the supervisor.
pub(crate) type Group = u32;

/// Why a group is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Its leader ended, by itself or by a signal of the supervisor.
    Itself,
    /// The watchdog ended it because its time ran out.
    Deadline,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Comes with three descriptors.
    Start {
        group: Group,
        until_nanos: u64,
        grace_nanos: u64,
        stop_nanos: u64,
        arguments: Vec<Vec<u8>>,
        variables: Vec<(Vec<u8>, Vec<u8>)>,
    },
    Until {
        group: Group,
        nanos: u64,
    },
    /// The supervisor has sent TERM to the group.
    Termed {
        group: Group,
    },
    Stop {
        group: Group,
    },
    LetGo {
        group: Group,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Report {
    Started {
        group: Group,
        pid: i32,
    },
    NotStarted {
        group: Group,
        errno: i32,
    },
    /// `status` as wait(2) has it.
    Gone {
        group: Group,
        status: i32,
        cause: Cause,
    },
}

/// Words to a frame, and back.
#[derive(Default)]
struct Words {
    bytes: Vec<u8>,
}

impl Words {
    fn put(mut self, word: &[u8]) -> Words {
        // A word longer than a frame is refused with its frame.
        let length = u32::try_from(word.len()).unwrap_or(u32::MAX);
        self.bytes.extend_from_slice(&length.to_le_bytes());
        self.bytes.extend_from_slice(word);
        self
    }

    fn number(self, number: u64) -> Words {
        self.put(&number.to_le_bytes())
    }

    fn framed(self) -> io::Result<Vec<u8>> {
        if self.bytes.len() > FRAME_MAX {
            return Err(io::Error::from_raw_os_error(
                rustix::io::Errno::TOOBIG.raw_os_error(),
            ));
        }
        let length = u32::try_from(self.bytes.len()).map_err(io::Error::other)?;
        let mut frame = length.to_le_bytes().to_vec();
        frame.extend(self.bytes);
        Ok(frame)
    }
}

struct Reading<'a> {
    rest: &'a [u8],
}

impl<'a> Reading<'a> {
    fn word(&mut self) -> io::Result<&'a [u8]> {
        let (length, rest) = self.rest.split_first_chunk::<4>().ok_or_else(garbled)?;
        let length = usize::try_from(u32::from_le_bytes(*length)).map_err(io::Error::other)?;
        let (word, rest) = rest.split_at_checked(length).ok_or_else(garbled)?;
        self.rest = rest;
        Ok(word)
    }

    fn number(&mut self) -> io::Result<u64> {
        let bytes = self.word()?.try_into().map_err(|_| garbled())?;
        Ok(u64::from_le_bytes(bytes))
    }

    fn group(&mut self) -> io::Result<Group> {
        Group::try_from(self.number()?).map_err(|_| garbled())
    }

    fn signed(&mut self) -> io::Result<i32> {
        let number = u32::try_from(self.number()?).map_err(|_| garbled())?;
        Ok(number.cast_signed())
    }
}

fn garbled() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "a frame of the leash cannot be read")
}

impl Order {
    pub(crate) fn to_frame(&self) -> io::Result<Vec<u8>> {
        let words = Words::default();
        match self {
            Order::Start {
                group,
                until_nanos,
                grace_nanos,
                stop_nanos,
                arguments,
                variables,
            } => {
                let mut words = words.put(b"start").number((*group).into());
                for number in [*until_nanos, *grace_nanos, *stop_nanos] {
                    words = words.number(number);
                }
                words = words.number(arguments.len() as u64);
                for argument in arguments {
                    words = words.put(argument);
                }
                for (name, value) in variables {
                    words = words.put(name).put(value);
                }
                words.framed()
            }
            Order::Until { group, nanos } => words
                .put(b"until")
                .number((*group).into())
                .number(*nanos)
                .framed(),
            Order::Termed { group } => words.put(b"termed").number((*group).into()).framed(),
            Order::Stop { group } => words.put(b"stop").number((*group).into()).framed(),
            Order::LetGo { group } => words.put(b"let_go").number((*group).into()).framed(),
        }
    }

    fn parse(frame: &[u8]) -> io::Result<Order> {
        let mut reading = Reading { rest: frame };
        let kind = reading.word()?;
        let group = reading.group()?;
        Ok(match kind {
            b"start" => {
                let (until_nanos, grace_nanos, stop_nanos) =
                    (reading.number()?, reading.number()?, reading.number()?);
                let count = reading.number()?;
                let mut arguments = Vec::new();
                for _ in 0..count {
                    arguments.push(reading.word()?.to_vec());
                }
                let mut variables = Vec::new();
                while !reading.rest.is_empty() {
                    variables.push((reading.word()?.to_vec(), reading.word()?.to_vec()));
                }
                Order::Start {
                    group,
                    until_nanos,
                    grace_nanos,
                    stop_nanos,
                    arguments,
                    variables,
                }
            }
            b"until" => Order::Until {
                group,
                nanos: reading.number()?,
            },
            b"termed" => Order::Termed { group },
            b"stop" => Order::Stop { group },
            b"let_go" => Order::LetGo { group },
            _ => return Err(garbled()),
        })
    }
}

impl Report {
    pub(crate) fn to_frame(&self) -> io::Result<Vec<u8>> {
        let signed = |number: i32| u64::from(number.cast_unsigned());
        let words = Words::default();
        match self {
            Report::Started { group, pid } => words
                .put(b"started")
                .number((*group).into())
                .number(signed(*pid))
                .framed(),
            Report::NotStarted { group, errno } => words
                .put(b"not_started")
                .number((*group).into())
                .number(signed(*errno))
                .framed(),
            Report::Gone { group, status, cause } => words
                .put(b"gone")
                .number((*group).into())
                .number(signed(*status))
                .number(u64::from(*cause == Cause::Deadline))
                .framed(),
        }
    }

    fn parse(frame: &[u8]) -> io::Result<Report> {
        let mut reading = Reading { rest: frame };
        let kind = reading.word()?;
        let group = reading.group()?;
        Ok(match kind {
            b"started" => Report::Started {
                group,
                pid: reading.signed()?,
            },
            b"not_started" => Report::NotStarted {
                group,
                errno: reading.signed()?,
            },
            b"gone" => Report::Gone {
                group,
                status: reading.signed()?,
                cause: if reading.number()? == 1 {
                    Cause::Deadline
                } else {
                    Cause::Itself
                },
            },
            _ => return Err(garbled()),
        })
    }
}

/// Writes a frame, and with its first byte the descriptors. Not cancel safe.
pub(crate) async fn send(
    stream: &mut UnixStream,
    frame: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let mut sent = 0;
    if !descriptors.is_empty() {
        sent = stream
            .async_io(Interest::WRITABLE, || {
                let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
                let mut beside = SendAncillaryBuffer::new(&mut space);
                if !beside.push(SendAncillaryMessage::ScmRights(descriptors)) {
                    return Err(io::ErrorKind::InvalidInput.into());
                }
                let parts = [IoSlice::new(frame)];
                Ok(sendmsg(stream.as_fd(), &parts, &mut beside, SendFlags::NOSIGNAL)?)
            })
            .await?;
    }
    stream.write_all(&frame[sent..]).await
}

/// What was read and not yet used.
#[derive(Default)]
pub(crate) struct Inbox {
    bytes: Vec<u8>,
    descriptors: VecDeque<OwnedFd>,
}

impl Inbox {
    /// Waits for more bytes; false at the end of the stream. Cancel safe.
    async fn fill(&mut self, stream: &UnixStream) -> io::Result<bool> {
        let mut buffer = [0_u8; READ_SIZE];
        let (length, descriptors) = stream
            .async_io(Interest::READABLE, || {
                let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
                let mut beside = RecvAncillaryBuffer::new(&mut space);
                let mut parts = [IoSliceMut::new(&mut buffer)];
                let received = recvmsg(stream.as_fd(), &mut parts, &mut beside, RecvFlags::CMSG_CLOEXEC)?;
                let mut descriptors = Vec::new();
                for message in beside.drain() {
                    if let RecvAncillaryMessage::ScmRights(rights) = message {
                        descriptors.extend(rights);
                    }
                }
                Ok((received.bytes, descriptors))
            })
            .await?;
        self.bytes.extend_from_slice(&buffer[..length]);
        self.descriptors.extend(descriptors);
        Ok(length > 0)
    }

    /// Takes the next whole frame out of what was read.
    fn take(&mut self) -> io::Result<Option<Vec<u8>>> {
        let Some(length) = self.bytes.first_chunk::<4>() else {
            return Ok(None);
        };
        let length = usize::try_from(u32::from_le_bytes(*length)).map_err(io::Error::other)?;
        if length > FRAME_MAX {
            return Err(garbled());
        }
        if self.bytes.len() < 4 + length {
            return Ok(None);
        }
        let frame = self.bytes[4..4 + length].to_vec();
        self.bytes.drain(..4 + length);
        Ok(Some(frame))
    }

    async fn frame(&mut self, stream: &UnixStream) -> io::Result<Option<Vec<u8>>> {
        loop {
            if let Some(frame) = self.take()? {
                return Ok(Some(frame));
            }
            if !self.fill(stream).await? {
                return Ok(None);
            }
        }
    }

    /// Waits for the next order; `None` when the supervisor is gone. Cancel safe.
    pub(crate) async fn order(&mut self, stream: &UnixStream) -> io::Result<Option<Order>> {
        let frame = self.frame(stream).await?;
        frame.map(|frame| Order::parse(&frame)).transpose()
    }

    /// Waits for the next report; `None` when the watchdog is gone. Cancel safe.
    pub(crate) async fn report(&mut self, stream: &UnixStream) -> io::Result<Option<Report>> {
        let frame = self.frame(stream).await?;
        frame.map(|frame| Report::parse(&frame)).transpose()
    }

    /// Returns the three descriptors of the order that was read last.
    pub(crate) fn descriptors(&mut self) -> Option<[OwnedFd; DESCRIPTORS]> {
        if self.descriptors.len() < DESCRIPTORS {
            return None;
        }
        self.descriptors
            .drain(..DESCRIPTORS)
            .collect::<Vec<_>>()
            .try_into()
            .ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start() -> Order {
        Order::Start {
            group: 7,
            until_nanos: u64::MAX,
            grace_nanos: 2,
            stop_nanos: 3,
            arguments: vec![b"sh".to_vec(), Vec::new(), b"\xff".to_vec()],
            variables: vec![(b"A".to_vec(), b"b=c".to_vec())],
        }
    }

    #[test]
    fn what_is_said_is_understood() {
        for order in [
            start(),
            Order::Until { group: 1, nanos: 5 },
            Order::Termed { group: 2 },
            Order::Stop { group: 3 },
            Order::LetGo { group: 4 },
        ] {
            assert_eq!(Order::parse(&order.to_frame().unwrap()[4..]).unwrap(), order);
        }
        for report in [
            Report::Started { group: 1, pid: 77 },
            Report::NotStarted { group: 1, errno: 2 },
            Report::Gone {
                group: 1,
                status: -1,
                cause: Cause::Deadline,
            },
        ] {
            assert_eq!(Report::parse(&report.to_frame().unwrap()[4..]).unwrap(), report);
        }
    }

    #[test]
    fn a_frame_that_is_cut_or_unknown_is_an_error() {
        let frame = start().to_frame().unwrap();
        for end in 4..frame.len() {
            // Cut between two variables, what is left is a whole order.
            let cut = Order::parse(&frame[4..end]);
            assert!(cut.is_err() || end >= frame.len() - 12, "{end}: {cut:?}");
        }
        assert!(Order::parse(&Words::default().put(b"dance").number(1).bytes).is_err());
        let mut inbox = Inbox {
            bytes: u32::MAX.to_le_bytes().to_vec(),
            ..Inbox::default()
        };
        assert!(
            inbox.take().is_err(),
            "nothing is kept for a length that is only claimed"
        );
    }

    #[tokio::test]
    async fn descriptors_travel_with_their_frame() {
        let (mut here, there) = UnixStream::pair().unwrap();
        let file = tempfile::tempfile().unwrap();
        let frame = start().to_frame().unwrap();
        send(&mut here, &frame, &[file.as_fd(), file.as_fd(), file.as_fd()])
            .await
            .unwrap();
        let mut inbox = Inbox::default();
        assert_eq!(inbox.order(&there).await.unwrap(), Some(start()));
        assert!(inbox.descriptors().is_some() && inbox.descriptors().is_none());
        drop(here);
        assert_eq!(inbox.order(&there).await.unwrap(), None);
    }
}
