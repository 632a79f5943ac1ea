//! What a client wants of exec and attach, from the query.

use node_api::containers::ExecRequest;

use crate::server::query::Query;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Options(pub(crate) ExecRequest);

impl Options {
    /// The API server says `input`, `output` and `error`; `stdin`, `stdout` and `stderr` are what
    /// users say.
    pub(crate) fn parse(query: &Query) -> Result<Self, &'static str> {
        let tty = query.flag("tty");
        let request = ExecRequest {
            command: query.all("command").map(str::to_owned).collect(),
            tty,
            stdin: query.flag("input") || query.flag("stdin"),
            stdout: query.flag("output") || query.flag("stdout"),
            // A terminal has one output.
            stderr: (query.flag("error") || query.flag("stderr")) && !tty,
        };
        if !request.stdin && !request.stdout && !request.stderr {
            return Err("you must specify at least 1 of stdin, stdout, stderr");
        }
        Ok(Self(request))
    }
}
