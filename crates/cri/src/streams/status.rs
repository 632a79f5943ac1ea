//! How a command ended, as the server writes it to the error stream: a `Status` of the API in JSON.

use node_api::Error;
use serde::Deserialize;

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    status: String,
    message: String,
    reason: String,
    details: Details,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Details {
    causes: Vec<Cause>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Cause {
    reason: String,
    message: String,
}

/// Nothing at all means that the connection broke before the command ended.
pub(super) fn parse(text: &[u8]) -> Result<i32, Error> {
    let refuse = |why: String| Error::Refused(format!("command: {why}"));
    if text.is_empty() {
        return Err(refuse("the runtime hung up before it ended".to_owned()));
    }
    let Ok(status) = serde_json::from_slice::<Status>(text) else {
        return Err(refuse(String::from_utf8_lossy(text).into_owned()));
    };
    if status.status == "Success" {
        return Ok(0);
    }
    let code = status.details.causes.iter().find(|it| it.reason == "ExitCode");
    match code.and_then(|it| it.message.parse().ok()) {
        Some(code) if status.reason == "NonZeroExitCode" => Ok(code),
        _ => Err(refuse(status.message)),
    }
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn ends_are_read() {
        let check = |text: &str, expected: Result<i32, &str>| {
            let read = parse(text.as_bytes()).map_err(|err| err.to_string());
            match expected {
                Ok(code) => assert_eq!(read, Ok(code)),
                Err(part) => assert!(read.clone().unwrap_err().contains(part), "{read:?}"),
            }
        };
        check(r#"{"metadata":{},"status":"Success"}"#, Ok(0));
        let failed = r#"{"status":"Failure","reason":"NonZeroExitCode","message":"exit code 3",
            "details":{"causes":[{"reason":"ExitCode","message":"3"}]}}"#;
        check(failed, Ok(3));
        check(r#"{"status":"Failure","message":"no such file"}"#, Err("no such file"));
        check("not json", Err("not json"));
        check("", Err("hung up"));
    }
}
