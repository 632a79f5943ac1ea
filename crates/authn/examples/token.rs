//! What a token costs that was seen before: `cargo run --release -p authn --example token`.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use api::{Lookup, Meta, Stored};
use apimachinery::{GroupResource, ObjectKey};
use authn::pki::ServiceAccountKey;
use authn::tokens::{Bound, ISSUER_DEFAULT, Reference, TokenIssuer, Wanted};
use authn::{Authenticator, Credential, Parts};
use stdx::{Random, SystemClock};

const N_ROUNDS: u32 = 1_000_000;

/// An account and a pod, each at hand.
struct Both(Arc<Stored>, Arc<Stored>);

impl Lookup for Both {
    fn find(&self, resource: &GroupResource, _: &ObjectKey) -> Option<Arc<Stored>> {
        Some(if resource.resource == "pods" { &self.0 } else { &self.1 }.clone())
    }

    fn list(&self, _: &GroupResource, _: Option<&str>) -> Vec<Arc<Stored>> {
        Vec::new()
    }
}

fn stored(name: &str, uid: &str) -> Arc<Stored> {
    let meta = Meta { key: ObjectKey::new("ns", name), uid: uid.to_owned(), ..Meta::default() };
    Arc::new(Stored::new(meta, b"{}".to_vec().into()))
}

fn reference(name: &str, uid: &str) -> Reference {
    Reference { name: name.to_owned(), uid: uid.to_owned() }
}

#[expect(clippy::print_stdout, reason = "its purpose")]
#[expect(clippy::disallowed_methods, reason = "real time is what is measured")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let clock = Arc::new(SystemClock);
    let key = Arc::new(ServiceAccountKey::create()?);
    let audiences = vec![ISSUER_DEFAULT.to_owned()];
    let random = Random::from_seed(1);
    let issuer =
        TokenIssuer::new(key.clone(), ISSUER_DEFAULT, audiences.clone(), clock.clone(), random)?;
    let authenticator = Authenticator::new(Parts {
        service_account_keys: vec![key.public().clone()],
        issuers: vec![ISSUER_DEFAULT.to_owned()],
        audiences,
        has_bootstrap_tokens: true,
        clock,
        lookup: Arc::new(Both(stored("web", "p1"), stored("robot", "u1"))),
        deleted_nodes: Arc::default(),
    });
    let issued = issuer.issue(Wanted {
        namespace: "ns".to_owned(),
        service_account: reference("robot", "u1"),
        audiences: Vec::new(),
        expiration_seconds: 3600,
        bound: Some(Bound::Pod { pod: reference("web", "p1"), node: None }),
    })?;
    let length = issued.token.len();
    let credential = Credential::Bearer(issued.token);
    authenticator.authenticate(&credential)?;
    let start = Instant::now();
    for _ in 0..N_ROUNDS {
        black_box(authenticator.authenticate(black_box(&credential))?);
    }
    let nanos = start.elapsed().as_nanos() as f64 / f64::from(N_ROUNDS);
    println!("a token of {length} bytes that was seen before: {nanos:.0} ns");
    Ok(())
}
