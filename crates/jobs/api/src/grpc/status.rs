//! Problems as gRPC knows them.

use tonic::metadata::MetadataValue;
use tonic::{Code, Status};

use crate::problem::{Problem, Sort};
use crate::proto;

impl From<Problem> for Status {
    fn from(problem: Problem) -> Status {
        let code = match problem.sort {
            Sort::BadRequest | Sort::MediaType | Sort::TooLarge => Code::InvalidArgument,
            Sort::Unauthorized => Code::Unauthenticated,
            Sort::Forbidden => Code::PermissionDenied,
            Sort::NotFound => Code::NotFound,
            Sort::WrongState | Sort::LeaseLost | Sort::DependencyUnusable => Code::FailedPrecondition,
            Sort::QueueFull | Sort::Busy => Code::ResourceExhausted,
            Sort::Timeout => Code::DeadlineExceeded,
            Sort::NotSent => Code::Unavailable,
            Sort::Unavailable => Code::Unavailable,
            Sort::Internal => Code::Internal,
        };
        let mut status = Status::new(code, problem.detail);
        let metadata = status.metadata_mut();
        metadata.insert("nagaya-problem", MetadataValue::from_static(problem.sort.name()));
        if let Some(reason) = problem.reason {
            metadata.insert("nagaya-reason", MetadataValue::from_static(reason));
        }
        status
    }
}

impl From<Problem> for proto::Problem {
    fn from(problem: Problem) -> proto::Problem {
        proto::Problem {
            name: problem.sort.name().into(),
            detail: problem.detail,
            reason: problem.reason.unwrap_or_default().into(),
        }
    }
}
