//! What a client wants of a log, from the query.

use jiff::{SignedDuration, Timestamp};

use crate::server::query::Query;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) follow: bool,
    pub(crate) previous: bool,
    pub(crate) timestamps: bool,
    pub(crate) since: Option<Timestamp>,
    pub(crate) tail: Option<u64>,
    pub(crate) limit: Option<u64>,
    pub(crate) stream: Option<&'static str>,
}

impl Options {
    pub(crate) fn parse(query: &Query, now: Timestamp) -> Result<Self, String> {
        let number = |key: &str| {
            query.get(key).map(|text| {
                text.parse::<u64>().map_err(|_| format!("{key}: {text:?} is not a positive number"))
            })
        };
        let since_time = query.get("sinceTime").map(|text| {
            text.parse::<Timestamp>().map_err(|_| format!("sinceTime: {text:?} is not a time"))
        });
        let since = match (number("sinceSeconds").transpose()?, since_time.transpose()?) {
            (Some(_), Some(_)) => {
                return Err("at most one of sinceTime or sinceSeconds may be specified".to_owned());
            }
            (Some(seconds), None) => {
                let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
                let ago = SignedDuration::from_secs(seconds);
                Some(now.checked_sub(ago).unwrap_or(Timestamp::MIN))
            }
            (None, time) => time,
        };
        let stream = match query.get("stream") {
            None | Some("All") => None,
            Some("Stdout") => Some("stdout"),
            Some("Stderr") => Some("stderr"),
            Some(other) => return Err(format!("stream: {other:?} is none of All, Stdout, Stderr")),
        };
        Ok(Self {
            follow: query.flag("follow"),
            previous: query.flag("previous"),
            timestamps: query.flag("timestamps"),
            since,
            tail: number("tailLines").transpose()?,
            limit: number("limitBytes").transpose()?,
            stream,
        })
    }
}
