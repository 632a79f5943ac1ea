//! How a call ended: gRPC's codes, and the two trailers that carry them.

use std::fmt;

use http::{HeaderMap, HeaderValue};
use percent_encoding::{AsciiSet, CONTROLS, percent_decode, utf8_percent_encode};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    Ok = 0,
    Canceled = 1,
    Unknown = 2,
    InvalidArgument = 3,
    DeadlineExceeded = 4,
    NotFound = 5,
    AlreadyExists = 6,
    PermissionDenied = 7,
    ResourceExhausted = 8,
    FailedPrecondition = 9,
    Aborted = 10,
    OutOfRange = 11,
    Unimplemented = 12,
    Internal = 13,
    Unavailable = 14,
    DataLoss = 15,
    Unauthenticated = 16,
}

impl Code {
    const ALL: [Self; 17] = [
        Self::Ok,
        Self::Canceled,
        Self::Unknown,
        Self::InvalidArgument,
        Self::DeadlineExceeded,
        Self::NotFound,
        Self::AlreadyExists,
        Self::PermissionDenied,
        Self::ResourceExhausted,
        Self::FailedPrecondition,
        Self::Aborted,
        Self::OutOfRange,
        Self::Unimplemented,
        Self::Internal,
        Self::Unavailable,
        Self::DataLoss,
        Self::Unauthenticated,
    ];

    fn parse(text: &[u8]) -> Option<Self> {
        let number: usize = std::str::from_utf8(text).ok()?.parse().ok()?;
        Self::ALL.get(number).copied()
    }
}

/// Why a call failed. Clients of etcd compare both the code and the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    pub code: Code,
    pub message: String,
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({:?})", self.message, self.code)
    }
}

impl std::error::Error for Status {}

/// What gRPC wants escaped in `grpc-message`: everything but printable ASCII, and the percent sign.
const ESCAPED: &AsciiSet = &CONTROLS.add(b'%');

const GRPC_STATUS: &str = "grpc-status";
const GRPC_MESSAGE: &str = "grpc-message";

impl Status {
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// The trailers of a call that succeeded.
    pub fn ok_trailers() -> HeaderMap {
        let mut trailers = HeaderMap::with_capacity(1);
        trailers.insert(GRPC_STATUS, HeaderValue::from_static("0"));
        trailers
    }

    pub fn write_to(&self, headers: &mut HeaderMap) {
        headers.insert(GRPC_STATUS, HeaderValue::from(self.code as u16));
        let message = utf8_percent_encode(&self.message, ESCAPED).to_string();
        if let Ok(message) = HeaderValue::from_str(&message) {
            headers.insert(GRPC_MESSAGE, message);
        }
    }

    /// What the headers or trailers say: `None` if they do not say, `Ok` if the call succeeded.
    pub fn read_from(headers: &HeaderMap) -> Option<Result<(), Self>> {
        let code = Code::parse(headers.get(GRPC_STATUS)?.as_bytes()).unwrap_or(Code::Unknown);
        if code == Code::Ok {
            return Some(Ok(()));
        }
        let message = headers.get(GRPC_MESSAGE).map(HeaderValue::as_bytes).unwrap_or_default();
        let message = percent_decode(message).decode_utf8_lossy().into_owned();
        Some(Err(Self { code, message }))
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::{Code, Status};

    #[test]
    fn a_status_survives_the_trailers() {
        let check = |message: &str| {
            let status = Status::new(Code::OutOfRange, message);
            let mut trailers = HeaderMap::new();
            status.write_to(&mut trailers);
            assert_eq!(Status::read_from(&trailers), Some(Err(status)));
        };
        check("etcdserver: mvcc: required revision has been compacted");
        check("100% of größe\nand a second line");
        check("");
        assert_eq!(Status::read_from(&Status::ok_trailers()), Some(Ok(())));
        assert_eq!(Status::read_from(&HeaderMap::new()), None);
    }
}
