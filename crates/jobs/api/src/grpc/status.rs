//! Converts problems to gRPC statuses.

use tonic::metadata::MetadataValue;
use tonic::{Code, Status};

use crate::problem::{Problem, ProblemKind};
use crate::proto;

impl From<Problem> for Status {
    fn from(problem: Problem) -> Status {
        let code = match problem.kind {
            ProblemKind::BadRequest | ProblemKind::MediaType | ProblemKind::TooLarge => Code::InvalidArgument,
            ProblemKind::Unauthorized => Code::Unauthenticated,
            ProblemKind::Forbidden => Code::PermissionDenied,
            ProblemKind::NotFound => Code::NotFound,
            ProblemKind::WrongState
            | ProblemKind::LeaseLost
            | ProblemKind::DependencyUnusable
            | ProblemKind::KeyReused
            | ProblemKind::NotEmpty => Code::FailedPrecondition,
            ProblemKind::QueueFull | ProblemKind::Busy => Code::ResourceExhausted,
            ProblemKind::Timeout => Code::DeadlineExceeded,
            ProblemKind::NotSent => Code::Unavailable,
            ProblemKind::Unavailable => Code::Unavailable,
            ProblemKind::Internal => Code::Internal,
        };
        let mut status = Status::new(code, problem.detail);
        let metadata = status.metadata_mut();
        metadata.insert("nagaya-problem", MetadataValue::from_static(problem.kind.name()));
        if let Some(reason) = problem.reason {
            metadata.insert("nagaya-reason", MetadataValue::from_static(reason));
        }
        status
    }
}

impl From<Problem> for proto::Problem {
    fn from(problem: Problem) -> proto::Problem {
        proto::Problem {
            name: problem.kind.name().into(),
            detail: problem.detail,
            reason: problem.reason.unwrap_or_default().into(),
        }
    }
}
