//! Transactions: sent once, and never again before it is certain that they did not happen. See the
//! engine's header.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use kvstore::{
    Error, Op, OpResult, Previous, Put, PutLease, PutValue, Revision, TXN_OPS_MAX, Txn, TxnResponse,
};
use stdx::Backoff;
use tokio::time::{Instant, sleep, timeout};

use super::errors::{Failure, Refusal};
use super::members::Unanswered;
use super::outcome::{Outcome, decide};
use super::revisions::Freshness;
use super::{Shared, convert, errors, written};
use crate::wire::messages::{
    self as wire, CompareResult, CompareTarget, CompareTargetUnion, RequestOpUnion, ResponseOpUnion,
};
use crate::wire::methods;

/// How many revisions that this process made are remembered.
const CLAIMS_MAX: usize = 65_536;

/// The revisions that transactions of this process are known to have made.
#[derive(Default)]
pub(super) struct Claims(Mutex<BTreeSet<Revision>>);

impl Claims {
    /// False when another one has it.
    fn claim(&self, revision: Revision) -> bool {
        let mut claims = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = claims.insert(revision);
        if claims.len() > CLAIMS_MAX {
            claims.pop_first();
        }
        is_new
    }

    fn has(&self, revision: Revision) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(&revision)
    }
}

/// How the fence is put around a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// One more compare, and a read of the fence at the end of `otherwise`.
    Flat,
    /// The whole transaction inside of one that compares the fence: for an `otherwise` that writes.
    Nested,
    /// Without: one more does not fit. If its answer is lost, nothing can be said.
    Bare,
}

/// What an answer means.
enum Said {
    Done(TxnResponse),
    /// Nothing was done; the fence is here now.
    Fenced {
        raised: i64,
    },
}

impl Shared {
    pub(super) async fn txn(&self, txn: &Txn) -> Result<TxnResponse, Error> {
        written::check(txn)?;
        if !writes(&txn.then) && !writes(&txn.otherwise) {
            return self.read_txn(txn).await;
        }
        let mut response = self.write_txn(txn).await?;
        self.await_own_events(response.revision).await;
        if txn.previous == Previous::Keys {
            drop_previous_values(&mut response);
        }
        Ok(response)
    }

    async fn read_txn(&self, txn: &Txn) -> Result<TxnResponse, Error> {
        let freshness = Freshness::AtLeast(self.members.revisions.known());
        let timeout = self.members.limits.timeout_request;
        let request = convert::txn(txn);
        match self.members.read(methods::TXN, &request, freshness, timeout).await {
            Ok(answer) => convert::txn_response(txn, answer, Revision(0)).ok_or_else(malformed),
            Err(Unanswered::Unavailable { why }) => Err(Error::Unavailable { why }),
            Err(Unanswered::Refused(refusal)) => Err(self.refuse_txn(txn, refusal).await),
        }
    }

    async fn write_txn(&self, txn: &Txn) -> Result<TxnResponse, Error> {
        let members = &self.members;
        let deadline = Instant::now() + members.limits.timeout_request;
        // Before anything of this is sent: it cannot have happened at or before this revision.
        let since = members.revisions.known();
        let form = form(txn);
        let mut backoff = Backoff::new(Duration::from_millis(20), Duration::from_secs(1));
        loop {
            let sent = self.fence.raised();
            let member = members.pick(&[]);
            let why = match self.send(txn, form, sent, member).await {
                Ok(Said::Done(response)) => {
                    members.trust(member);
                    // One that wrote nothing tells the revision of another's write.
                    if has_written(&response) {
                        self.claims.claim(response.revision);
                    }
                    return Ok(response);
                }
                Ok(Said::Fenced { raised }) if raised > sent => {
                    self.fence.adopt(raised);
                    continue;
                }
                Ok(Said::Fenced { .. }) => {
                    // Somebody removed it.
                    let raise = self.fence.raise(members, sent, deadline).await;
                    raise.map_err(|why| Error::Unavailable { why })?;
                    continue;
                }
                Err(Failure::Refused(refusal)) => {
                    members.trust(member);
                    return Err(self.refuse_txn(txn, refusal).await);
                }
                Err(Failure::Unknown { why }) => {
                    members.suspect(member);
                    if let Some(response) = self.look_for(txn, form, sent, since, &why).await? {
                        return Ok(response);
                    }
                    why
                }
                Err(failure) => {
                    members.suspect(member);
                    failure.why()
                }
            };
            if Instant::now() >= deadline {
                return Err(Error::Unavailable { why: format!("{}: {why}", members.name(member)) });
            }
            sleep(backoff.step()).await;
        }
    }

    async fn send(&self, txn: &Txn, form: Form, sent: i64, member: usize) -> Result<Said, Failure> {
        // Connecting is not part of what can be lost.
        self.members.channel(member).await?;
        let request = fenced(txn, form, &self.fence.key, sent);
        // A write is after everything that was known before; what answers otherwise is not this
        // cluster's present.
        let freshness = Freshness::AtLeast(self.members.revisions.known());
        let call = self.members.call(member, methods::TXN, &request, freshness);
        let answer = match timeout(self.members.limits.timeout_attempt, call).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(failure)) => return Err(failure),
            Err(_) => {
                let why = format!("no answer within {:?}", self.members.limits.timeout_attempt);
                return Err(Failure::Unknown { why });
            }
        };
        said(txn, form, sent, answer)
            .ok_or_else(|| Failure::Unknown { why: "the answer does not fit".to_owned() })
    }

    /// Sees to it that the transaction cannot happen any more, and then finds out whether it has.
    /// `None`: it has not.
    async fn look_for(
        &self,
        txn: &Txn,
        form: Form,
        sent: i64,
        since: Revision,
        why: &str,
    ) -> Result<Option<TxnResponse>, Error> {
        let uncertain = |more: &str| Error::Uncertain { why: format!("{why}; {more}") };
        if form == Form::Bare {
            return Err(uncertain("the transaction is too large to be fenced"));
        }
        let timeout_all = self.members.limits.timeout_request;
        let deadline = Instant::now() + timeout_all;
        let raise = self.fence.raise(&self.members, sent, deadline).await;
        let raised = raise.map_err(|it| uncertain(&it))?;
        if timeout(timeout_all, self.feed.reached(raised)).await.is_err() {
            return Err(uncertain("the history since then cannot be read"));
        }
        let Some(commits) = self.feed.since(since) else {
            return Err(uncertain("the history since then is not kept"));
        };
        match decide(txn, &commits, |it| self.claims.has(it)) {
            Outcome::DidNot => Ok(None),
            Outcome::Happened(response) if self.claims.claim(response.revision) => {
                Ok(Some(response))
            }
            Outcome::Happened(_) => Ok(None),
            Outcome::Unclear => Err(uncertain("the same was written, maybe by another")),
        }
    }

    /// Bounded, and not at all when the last one waited for nothing: writes are not held up by a
    /// broken stream.
    pub(super) async fn await_own_events(&self, revision: Revision) {
        let position = self.feed.position();
        if position.0 == self.stuck_at.load(Ordering::Relaxed) {
            return;
        }
        let reached = self.feed.reached(revision);
        if timeout(self.members.limits.timeout_own_events, reached).await.is_err() {
            self.stuck_at.store(position.0, Ordering::Relaxed);
        }
    }

    async fn refuse_txn(&self, txn: &Txn, refusal: Refusal) -> Error {
        let branches = || [&txn.then, &txn.otherwise];
        match refusal {
            // Looked for before sending, so this one is etcd's own opinion.
            Refusal::DuplicateKey => Error::DuplicateKey { key: Bytes::new() },
            Refusal::KeyNotFound => {
                let is_kept = |it: &Put| it.value == PutValue::Kept || it.lease == PutLease::Kept;
                let key = puts(txn).into_iter().find(|it| is_kept(it)).map(|it| it.key.clone());
                Error::KeyNotFound { key: key.unwrap_or_default() }
            }
            Refusal::LeaseNotFound => {
                let lease = puts(txn).into_iter().find_map(|it| match it.lease {
                    PutLease::Bound(id) => Some(id),
                    PutLease::None | PutLease::Kept => None,
                });
                match lease {
                    Some(id) => Error::LeaseNotFound { id },
                    None => malformed(),
                }
            }
            Refusal::TooManyOps => {
                let [then, otherwise] = branches().map(Vec::len);
                let size = then.max(otherwise).max(txn.compares.len());
                let what = "the number of operations or compares";
                Error::TooLarge { what, size, max: TXN_OPS_MAX }
            }
            Refusal::TooLarge => {
                let size = prost::Message::encoded_len(&convert::txn(txn));
                // etcd's `--max-request-bytes`; its own value of it cannot be asked for.
                Error::TooLarge {
                    what: "the number of bytes of a request to etcd",
                    size,
                    max: 3 << 19,
                }
            }
            Refusal::Compacted | Refusal::Future => {
                let requested = branches().into_iter().flatten().find_map(|it| match it {
                    Op::Range(it) => it.at,
                    _ => None,
                });
                self.refuse_revision(refusal, requested.unwrap_or(Revision(0))).await
            }
            Refusal::ReadOnly { why } => Error::ReadOnly { why },
            Refusal::LeaseExists => malformed(),
            Refusal::Other(status) => errors::refused(status),
        }
    }
}

fn malformed() -> Error {
    let status = crate::wire::Status::new(
        crate::wire::Code::Internal,
        "the answer of etcd does not fit the request",
    );
    errors::refused(status)
}

fn writes(ops: &[Op]) -> bool {
    ops.iter().any(|op| match op {
        Op::Put(_) | Op::Delete(_) => true,
        Op::Range(_) => false,
        Op::Txn(txn) => writes(&txn.then) || writes(&txn.otherwise),
    })
}

fn has_written(response: &TxnResponse) -> bool {
    response.results.iter().any(|it| match it {
        OpResult::Put { .. } => true,
        OpResult::Delete { previous } => !previous.is_empty(),
        OpResult::Range(_) => false,
        OpResult::Txn(nested) => has_written(nested),
    })
}

/// etcd tells all of the entries that were there, or nothing.
fn drop_previous_values(response: &mut TxnResponse) {
    for result in &mut response.results {
        match result {
            OpResult::Put { previous } => previous.iter_mut().for_each(|it| it.value.clear()),
            OpResult::Delete { previous } => previous.iter_mut().for_each(|it| it.value.clear()),
            OpResult::Range(_) => {}
            OpResult::Txn(nested) => drop_previous_values(nested),
        }
    }
}

fn puts(txn: &Txn) -> Vec<&Put> {
    let mut all = Vec::new();
    for op in txn.then.iter().chain(&txn.otherwise) {
        match op {
            Op::Put(put) => all.push(put),
            Op::Txn(txn) => all.extend(puts(txn)),
            Op::Delete(_) | Op::Range(_) => {}
        }
    }
    all
}

/// etcd's limit counts a nested transaction with what it is nested in.
fn form(txn: &Txn) -> Form {
    let widest = txn.compares.len().max(txn.then.len()).max(txn.otherwise.len());
    if !writes(&txn.otherwise)
        && txn.compares.len() < TXN_OPS_MAX
        && txn.otherwise.len() < TXN_OPS_MAX
    {
        Form::Flat
    } else if widest < TXN_OPS_MAX {
        Form::Nested
    } else {
        Form::Bare
    }
}

fn fenced(txn: &Txn, form: Form, fence: &Bytes, sent: i64) -> wire::TxnRequest {
    let mut request = convert::txn(txn);
    let compare = wire::Compare {
        result: CompareResult::Equal as i32,
        target: CompareTarget::Mod as i32,
        key: fence.clone(),
        target_union: Some(CompareTargetUnion::ModRevision(sent)),
        range_end: Bytes::new(),
    };
    let read =
        wire::RangeRequest { key: fence.clone(), keys_only: true, ..wire::RangeRequest::default() };
    let read = wire::RequestOp { request: Some(RequestOpUnion::Range(read)) };
    match form {
        Form::Bare => request,
        Form::Flat => {
            request.compare.push(compare);
            request.failure.push(read);
            request
        }
        Form::Nested => {
            let whole = wire::RequestOp { request: Some(RequestOpUnion::Txn(request)) };
            wire::TxnRequest { compare: vec![compare], success: vec![whole], failure: vec![read] }
        }
    }
}

/// `None` when the answer does not fit what was sent.
fn said(txn: &Txn, form: Form, sent: i64, mut answer: wire::TxnResponse) -> Option<Said> {
    let current = convert::revision(answer.header?.revision);
    if form == Form::Bare || (form == Form::Flat && answer.succeeded) {
        return convert::txn_response(txn, answer, current).map(Said::Done);
    }
    let last = answer.responses.pop()?.response?;
    if form == Form::Nested && answer.succeeded {
        let ResponseOpUnion::Txn(whole) = last else { return None };
        let mut response = convert::txn_response(txn, whole, current)?;
        response.revision = current;
        return Some(Said::Done(response));
    }
    let ResponseOpUnion::Range(read) = last else { return None };
    let raised = read.kvs.first().map_or(0, |it| it.mod_revision);
    if raised != sent {
        return Some(Said::Fenced { raised });
    }
    // The fence stood where it should, so it was the transaction's own compares that failed. With
    // the fence alone in its compares, the nested form cannot fail so.
    (form == Form::Flat).then(|| convert::txn_response(txn, answer, current).map(Said::Done))?
}

#[cfg(test)]
mod tests {
    use kvstore::{Compare, Op, OpResult, Revision, TXN_OPS_MAX, Txn, TxnResponse};

    use super::{Form, form, has_written};

    #[test]
    fn only_a_transaction_that_wrote_made_its_revision() {
        let check = |results: Vec<OpResult>, expected: bool| {
            let response = TxnResponse { revision: Revision(7), succeeded: true, results };
            assert_eq!(has_written(&response), expected, "{response:?}");
            response
        };
        let nothing = check(vec![], false);
        let deleted_nothing = check(vec![OpResult::Delete { previous: vec![] }], false);
        let put = check(vec![OpResult::Put { previous: None }], true);
        check(vec![OpResult::Txn(nothing), OpResult::Txn(deleted_nothing)], false);
        check(vec![OpResult::Txn(put)], true);
    }

    #[test]
    fn the_fence_is_added_where_it_fits() {
        let puts = |n: usize| (0..n).map(|it| Op::put(it.to_string(), "")).collect::<Vec<_>>();
        let check = |compares: usize, then: usize, otherwise: usize, expected: Form| {
            let compares = (0..compares).map(|_| Compare::absent(b"a")).collect();
            let otherwise = puts(otherwise);
            let txn = Txn { compares, then: puts(then), otherwise, ..Txn::default() };
            assert_eq!(form(&txn), expected);
        };
        check(0, 1, 0, Form::Flat);
        check(1, TXN_OPS_MAX, 0, Form::Flat);
        check(TXN_OPS_MAX - 1, 1, 0, Form::Flat);
        check(TXN_OPS_MAX, 1, 0, Form::Bare);
        check(1, 1, 1, Form::Nested);
        check(1, TXN_OPS_MAX - 1, 1, Form::Nested);
        check(1, TXN_OPS_MAX, 1, Form::Bare);
    }
}
