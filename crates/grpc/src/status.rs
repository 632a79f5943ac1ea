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

/// Why a call failed. Some clients compare both the code and the text.
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

    /// Gives the names and values that carry it to `take`.
    pub fn fields(&self, mut take: impl FnMut(&str, &str)) {
        take(GRPC_STATUS, &(self.code as u16).to_string());
        take(GRPC_MESSAGE, &utf8_percent_encode(&self.message, ESCAPED).to_string());
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
    use http::{HeaderMap, HeaderName, HeaderValue};

    use super::{Code, GRPC_STATUS, Status};

    #[test]
    fn a_status_survives_the_trailers() {
        let check = |message: &str| {
            let status = Status::new(Code::OutOfRange, message);
            let mut trailers = HeaderMap::new();
            status.fields(|name, value| {
                let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
                trailers.insert(name, HeaderValue::from_str(value).unwrap());
            });
            assert_eq!(Status::read_from(&trailers), Some(Err(status)));
        };
        check("etcdserver: mvcc: required revision has been compacted");
        check("100% of größe\nand a second line");
        check("");
        let success = HeaderMap::from_iter([(
            HeaderName::from_static(GRPC_STATUS),
            HeaderValue::from_static("0"),
        )]);
        assert_eq!(Status::read_from(&success), Some(Ok(())));
        assert_eq!(Status::read_from(&HeaderMap::new()), None);
    }
}
