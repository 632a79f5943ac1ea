//! The log line of a request: upstream's "HTTP" of `-v=3`, with upstream's keys. Costs nothing when
//! nobody wants it.

use admission::Notes;
use http::{Request, Response, header};
use tokio::time::Instant;

pub(super) struct Line(Option<Begun>);

struct Begun {
    verb: String,
    uri: String,
    user_agent: String,
    start: Instant,
}

impl Line {
    pub(super) fn begin<B>(request: &Request<B>) -> Self {
        let begun = || {
            let agent = request.headers().get(header::USER_AGENT);
            let agent = agent.map(|it| String::from_utf8_lossy(it.as_bytes()).into_owned());
            Begun {
                verb: request.method().as_str().to_owned(),
                // Over HTTP/2 it comes with the server's name, over HTTP/1.1 without.
                uri: request.uri().path_and_query().map(ToString::to_string).unwrap_or_default(),
                user_agent: agent.unwrap_or_default(),
                start: Instant::now(),
            }
        };
        Self(tracing::enabled!(tracing::Level::DEBUG).then(begun))
    }

    /// When the head of the answer is known; a watch goes on from there.
    pub(super) fn end<B>(self, response: &Response<B>, notes: &Notes) {
        if let Some(Begun { verb, uri, user_agent, start }) = self.0 {
            let (latency, resp) = (start.elapsed(), response.status().as_u16());
            let annotations = Some(notes.annotations()).filter(|it| !it.is_empty());
            let annotations = annotations.map(tracing::field::debug);
            tracing::debug!(
                verb,
                URI = uri,
                ?latency,
                userAgent = user_agent,
                resp,
                auditAnnotations = annotations,
                "HTTP"
            );
        }
    }
}
