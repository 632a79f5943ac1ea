//! A client's request, passed on to the server whose it is, and its answer, passed back.
//!
//! Who asked is told by this server alone, over a connection that shows its identity. Redirects are
//! refused: nobody is sent elsewhere by a server that was not asked for. Bodies pass piece by
//! piece.

use std::sync::Arc;

use client::Flaws;
use http::uri::PathAndQuery;
use http::{HeaderName, HeaderValue, Request, Response, Version, header};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::{Body as _, Incoming};
use hyper::upgrade::OnUpgrade;

use super::call::{self, Error};
use super::identity;
use crate::aggregated::Remote;
use crate::flow::Seat;
use crate::http::status;
use crate::http::subject::subject;
use crate::metrics::By;
use crate::pipeline::Core;
use crate::pipeline::hooks::{Passing, StreamBody};
use crate::proxy::{self, Outgoing, headers};

/// Says which servers a request came through: one that meets itself would never end.
const PASSED_BY: HeaderName = HeaderName::from_static("x-aggregator-passed-by");
const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");
const FORWARDED_URI: HeaderName = HeaderName::from_static("x-forwarded-uri");

pub(super) async fn pass_on(
    core: &Arc<Core>,
    own_name: &str,
    remote: &Remote,
    mut passing: Passing,
) -> Response<StreamBody> {
    let subject = {
        let told = core.aggregated.told(&remote.group_version);
        subject(&passing.head, &remote.group_version, told.as_deref())
    };
    let ended = |code: u16, why: &str| {
        core.metrics.elsewhere.ended(&subject, By::Aggregator, code);
        refuse(code, why)
    };
    if !remote.is_available {
        return ended(503, "service unavailable");
    }
    if has_passed(&passing, own_name) {
        return refuse(503, "the request has been passed on in a circle");
    }
    let upgrade = passing.head.extensions.remove::<OnUpgrade>();
    let upgrade = upgrade.filter(|_| passing.head.headers.contains_key(header::UPGRADE));
    let seat = std::mem::take(&mut passing.seat);
    let request = match outgoing(core, own_name, remote, passing, upgrade.is_some()) {
        Ok(request) => request,
        Err(why) => return refuse(400, &why),
    };
    let answer = match exchange(core, remote, request).await {
        Ok(answer) => answer,
        Err(Error::Nowhere(verdict)) => {
            tracing::debug!(
                api_service = remote.name,
                why = verdict.message,
                "nowhere to pass on to"
            );
            return ended(503, "service unavailable");
        }
        Err(Error::Tls(why)) => return ended(500, &why),
        Err(err) => return refuse(503, &format!("error trying to reach service: {err}")),
    };
    if answer.status().is_redirection() && answer.headers().contains_key(header::LOCATION) {
        return refuse(
            502,
            "the backend attempted to redirect this request, which is not permitted",
        );
    }
    match upgrade {
        Some(client) => proxy::switch(core, client, answer, None)
            .unwrap_or_else(|err| refuse(502, err.message())),
        None => pass_back(answer, seat),
    }
}

/// In plain text, as upstream's proxy says it.
fn refuse(code: u16, why: &str) -> Response<StreamBody> {
    status::text(code, format!("{why}\n"))
}

fn has_passed(passing: &Passing, own_name: &str) -> bool {
    let before = passing.head.headers.get_all(PASSED_BY);
    before.iter().any(|it| it.as_bytes() == own_name.as_bytes())
}

async fn exchange(
    core: &Arc<Core>,
    remote: &Remote,
    request: Request<Outgoing>,
) -> Result<Response<Incoming>, Error> {
    let endpoints = call::endpoints(core, remote).map_err(Error::Nowhere)?;
    let stream = call::connect(core, remote, &endpoints).await?;
    let flaws = Flaws::of(stream.get_ref().1.peer_certificates().unwrap_or_default());
    let is_upgrade = request.headers().contains_key(header::UPGRADE);
    let answer = proxy::send(core, stream, request).await;
    let answer = answer.map_err(|err| Error::Send(err.message().to_owned()))?;
    // As upstream, whose upgrades take another way.
    if !is_upgrade {
        core.aggregated.deprecated.count(&remote.host(), flaws);
    }
    Ok(answer)
}

fn outgoing(
    core: &Core,
    own_name: &str,
    remote: &Remote,
    passing: Passing,
    is_upgrade: bool,
) -> Result<Request<Outgoing>, String> {
    let Passing { user, head, body, audit_id, .. } = passing;
    let path = head.uri.path_and_query().cloned();
    let path = path.unwrap_or_else(|| PathAndQuery::from_static("/"));
    let mut headers = headers::of_request(&head.headers, is_upgrade);
    let known = core.config.front_proxy.headers.as_ref();
    identity::set(&mut headers, &user, known).map_err(|err| err.to_string())?;
    let text = |it: &str| HeaderValue::from_str(it).map_err(|err| err.to_string());
    headers.insert(header::HOST, text(&remote.host())?);
    headers.append(PASSED_BY, text(own_name)?);
    headers.insert(FORWARDED_URI, text(head.uri.path())?);
    if let Some(audit_id) = audit_id {
        headers.insert(AUDIT_ID, audit_id);
    }
    if let Some(client) = head.extensions.get::<serving::Peer>() {
        headers::append_forwarded_for(&mut headers, &client.0.ip().to_string());
    }
    let body = if is_upgrade { None } else { body() };
    let body = body.filter(|it| !it.is_end_stream());
    let none = || Empty::new().map_err(|never| match never {}).boxed_unsync();
    let mut request = Request::new(body.unwrap_or_else(none));
    (*request.method_mut(), *request.version_mut()) = (head.method, Version::HTTP_11);
    (*request.uri_mut(), *request.headers_mut()) = (path.into(), headers);
    Ok(request)
}

fn pass_back(answer: Response<Incoming>, seat: Seat) -> Response<StreamBody> {
    let code = answer.status();
    let mut headers = headers::of_answer(answer.headers(), false);
    // This server's own is the one that its log has.
    headers.remove(AUDIT_ID);
    // Kept until the answer was sent.
    let keep = move |it| {
        let _kept = &seat;
        it
    };
    let mut response = Response::new(answer.into_body().map_frame(keep).boxed_unsync());
    (*response.status_mut(), *response.headers_mut()) = (code, headers);
    response
}
