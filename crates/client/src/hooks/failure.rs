//! Why a question was not answered, in the words that users of upstream know from Go.

use std::error::Error;
use std::fmt;
use std::io;

use http::StatusCode;
use rustls::CertificateError;
use serde_json::Value;

/// Of what somebody answers who does not answer with success.
const SHOWN_MAX: usize = 2048;
/// Of a call that was not answered at all.
const CODE_NONE: u16 = 503;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    text: String,
    /// The same without anything that was answered; `None`: nothing was.
    unsaid: Option<String>,
    code: u16,
    is_of_idle_connection: bool,
    is_late: bool,
}

impl Failure {
    pub(super) fn new(text: String) -> Self {
        let (is_of_idle_connection, is_late) = (false, false);
        Self { text, unsaid: None, code: CODE_NONE, is_of_idle_connection, is_late }
    }

    pub(super) fn late() -> Self {
        Self { is_late: true, ..Self::new("context deadline exceeded".to_owned()) }
    }

    /// What went wrong with the connection.
    pub(super) fn of_connection(err: &hyper::Error) -> Self {
        let text = match err {
            _ if err.is_incomplete_message() || err.is_canceled() || err.is_closed() => {
                "EOF".to_owned()
            }
            _ => stdx::error_chain(err).to_string(),
        };
        let is_of_idle_connection =
            err.is_canceled() || err.is_closed() || err.is_incomplete_message();
        Self { is_of_idle_connection, ..Self::new(text) }
    }

    pub(super) fn of_handshake(err: &io::Error, name: &str) -> Self {
        let inner = err.get_ref().and_then(|it| it.downcast_ref::<rustls::Error>());
        Self::new(match inner {
            Some(err) => tls_text(err, name),
            None if err.kind() == io::ErrorKind::UnexpectedEof => "EOF".to_owned(),
            None => err.to_string(),
        })
    }

    /// An answer, but none of success. A redirect is one of these: it is not followed.
    pub(super) fn of_status(status: StatusCode, body: &[u8]) -> Self {
        let said = serde_json::from_slice::<Value>(body).ok();
        let said = said.filter(|it| it["kind"] == "Status");
        let message = said.as_ref().and_then(|it| it["message"].as_str());
        let text = match message.filter(|it| !it.is_empty()) {
            Some(message) => shortened(message),
            None => generic(status, &shortened(String::from_utf8_lossy(body).trim())),
        };
        let unsaid = Some(format!("the server responded with the status code {}", status.as_u16()));
        Self { code: status.as_u16(), unsaid, ..Self::new(text) }
    }

    pub(super) fn of_post(self, url: &str) -> Self {
        // A status is about what was asked, not about how it was sent.
        match self.code {
            CODE_NONE => Self { text: format!("Post {url:?}: {}", self.text), ..self },
            _ => self,
        }
    }

    /// Whether a connection was used that may have been given up long before.
    pub(super) fn is_of_idle_connection(&self) -> bool {
        self.is_of_idle_connection
    }

    /// What a log may have.
    pub fn for_log(&self) -> &str {
        self.unsaid.as_deref().unwrap_or(&self.text)
    }

    pub fn is_late(&self) -> bool {
        self.is_late
    }

    /// Of the answer; 503 if there was none.
    pub fn code(&self) -> u16 {
        self.code
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Error for Failure {}

/// Why there is no answer that counts, for the log: nothing in it is from the answer. An error that
/// has it as its source is told to its client, and not to the log.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct Unanswered(pub String);

fn shortened(text: &str) -> String {
    text.char_indices().nth(SHOWN_MAX).map_or(text, |(end, _)| &text[..end]).to_owned()
}

/// As client-go says it.
fn generic(status: StatusCode, said: &str) -> String {
    match status.as_u16() {
        400 => "the server rejected our request for an unknown reason".to_owned(),
        401 => "the server has asked for the client to provide credentials".to_owned(),
        403 => said.to_owned(),
        404 => "the server could not find the requested resource".to_owned(),
        405 => "the server does not allow this method on the requested resource".to_owned(),
        429 => "the server has received too many requests and has asked us to try again later"
            .to_owned(),
        503 => "the server is currently unable to handle the request".to_owned(),
        504 => "the server was unable to return a response in the time allotted, but may still be \
                processing the request"
            .to_owned(),
        500.. => {
            format!("an error on the server ({said:?}) has prevented the request from succeeding")
        }
        300..400 => format!(
            "the server responded with the status code {}, and redirects are not followed",
            status.as_u16()
        ),
        code => format!(
            "the server responded with the status code {code} but did not return more information"
        ),
    }
}

fn tls_text(err: &rustls::Error, name: &str) -> String {
    match err {
        rustls::Error::InvalidCertificate(why) => {
            format!("tls: failed to verify certificate: x509: {}", certificate_text(why, name))
        }
        rustls::Error::InvalidMessage(_) => {
            "tls: first record does not look like a TLS handshake".to_owned()
        }
        rustls::Error::AlertReceived(alert) => format!("remote error: tls: {alert:?}"),
        other => format!("tls: {other}"),
    }
}

fn certificate_text(err: &CertificateError, name: &str) -> String {
    const TIME: &str = "certificate has expired or is not yet valid";
    match err {
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "certificate signed by unknown authority".to_owned()
        }
        CertificateError::Expired | CertificateError::NotValidYet => TIME.to_owned(),
        CertificateError::ExpiredContext { time, not_after } => {
            let (time, not_after) = (shown(time.as_secs()), shown(not_after.as_secs()));
            format!("{TIME}: current time {time} is after {not_after}")
        }
        CertificateError::NotValidYetContext { time, not_before } => {
            let (time, not_before) = (shown(time.as_secs()), shown(not_before.as_secs()));
            format!("{TIME}: current time {time} is before {not_before}")
        }
        CertificateError::NotValidForName => format!("certificate is not valid for {name}"),
        CertificateError::NotValidForNameContext { presented, .. } if presented.is_empty() => {
            format!("certificate is not valid for any names, but wanted to match {name}")
        }
        CertificateError::NotValidForNameContext { presented, .. } => {
            // `DnsName("a")` and the like.
            let bare = |it: &String| match it.split_once('(') {
                Some((_, rest)) => rest.trim_end_matches(')').trim_matches('"').to_owned(),
                None => it.clone(),
            };
            let names: Vec<String> = presented.iter().map(bare).collect();
            format!("certificate is valid for {}, not {name}", names.join(", "))
        }
        CertificateError::Other(why) => why.to_string(),
        other => other.to_string(),
    }
}

fn shown(seconds: u64) -> String {
    let at = i64::try_from(seconds).ok().and_then(|it| jiff::Timestamp::from_second(it).ok());
    at.map_or_else(|| seconds.to_string(), |it| it.to_string())
}
