//! What policies cost a write that none of them is for: `cargo run --release -p admission --example
//! policies [N]` prints nanoseconds per write for N policies (50 if it is not said) of other
//! resources, for N of the same resource but other operations, and for N that match.

use std::fmt::Write as _;
use std::future::Future;
use std::hint::black_box;
use std::sync::Arc;
use std::task::{Poll, Waker};

use admission::plugins::validating_admission_policy::ValidatingAdmissionPolicy as Policy;
use admission::policy::{Found, Parameters, Policies};
use admission::{
    Attributes, Authorizer, Codec, Context, Draft, Notes, OneVersion, Operation, Options, Phase,
    Plugin as _, Surroundings,
};
use api::admissionregistration::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding};
use api::core::Pod;
use api::{Lookup, Resource as _, Stored};
use apimachinery::{GroupResource, ObjectKey, Scope, User};
use authz::Decision;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use stdx::World;
use telemetry::Registry;

const WRITES: u32 = 20_000;

struct Nothing;

impl Parameters for Nothing {
    fn scope(&self, _: &str, _: &str) -> Option<Scope> {
        None
    }

    fn find<'a>(&'a self, _: Found<'a>) -> BoxFuture<'a, Result<Vec<Arc<Value>>, String>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }
}

impl Lookup for Nothing {
    fn find(&self, _: &GroupResource, _: &ObjectKey) -> Option<Arc<Stored>> {
        None
    }

    fn list(&self, _: &GroupResource, _: Option<&str>) -> Vec<Arc<Stored>> {
        Vec::new()
    }
}

impl Authorizer for Nothing {
    fn decide<'a>(&'a self, _: &'a User, _: &'a authz::Attributes) -> BoxFuture<'a, Decision> {
        Box::pin(std::future::ready(Decision::NoOpinion { reason: String::new() }))
    }
}

/// `n` policies with a binding each.
fn policies(n: usize, resource: &str, operation: &str) -> Policy {
    let policies = Policies::new(Arc::new(Nothing), &Registry::default());
    for index in 0..n {
        let name = format!("p{index}");
        let policy = json!({"metadata": {"name": name}, "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"namespaceSelector": {}, "objectSelector": {}, "resourceRules": [{
                "apiGroups": [""], "apiVersions": ["v1"], "resources": [resource],
                "operations": [operation],
            }]},
            "validations": [{"expression": "object.metadata.name != 'never'"}],
        }});
        let binding = json!({"metadata": {"name": name}, "spec": {
            "policyName": name, "validationActions": ["Deny"],
        }});
        let policy = policy.to_string().into_bytes();
        let policy = ValidatingAdmissionPolicy::decode(&policy).expect("a policy");
        policies.set_validating(&name, Some(&policy));
        let binding = binding.to_string().into_bytes();
        let binding = ValidatingAdmissionPolicyBinding::decode(&binding).expect("a binding");
        policies.set_validating_binding(&name, Some(&binding));
    }
    Policy(Arc::new(policies))
}

fn now<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    match future.as_mut().poll(&mut std::task::Context::from_waker(Waker::noop())) {
        Poll::Ready(it) => it,
        Poll::Pending => unreachable!("nobody is asked"),
    }
}

/// Of one write.
fn nanoseconds(plugin: &Policy) -> u128 {
    let kinds = api::kinds();
    let kind = kinds.iter().find(|it| it.names().plural == "persistentvolumes");
    let kind = kind.expect("a kind without namespaces").as_ref();
    let (user, notes) = (User::new("alice", &[]), Notes::default());
    let request = Attributes {
        operation: Operation::Update,
        kind,
        requested: kind.names(),
        versions: &OneVersion,
        subresource: "",
        namespace: "",
        name: "web",
        user: &user,
        options: Options::default(),
    };
    let pod = json!({"metadata": {"name": "web"}}).to_string().into_bytes();
    let pod = Pod::decode(&pod).expect("an object");
    let around = Surroundings { lookup: &Nothing, authorizer: &Nothing };
    let context = Context::new(request, around, &notes)
        .with_object(Draft::new(Box::new(pod)), Codec::dynamic());
    let clock = World::system().clock;
    let begin = clock.now();
    for _ in 0..WRITES {
        let context = black_box(&context);
        if plugin.handles(Phase::Validate, &context.request) {
            let judged = now(plugin.validate(context));
            assert!(judged.is_ok(), "nothing is refused");
        }
    }
    let elapsed = clock.now().duration_since(begin).unsigned_abs();
    elapsed.as_nanos() / u128::from(WRITES)
}

fn main() {
    let n = std::env::args().nth(1).and_then(|it| it.parse().ok()).unwrap_or(50);
    let mut text = String::new();
    for (what, resource, operation) in [
        ("of other resources", "configmaps", "UPDATE"),
        ("of other operations", "persistentvolumes", "CREATE"),
        ("that match", "persistentvolumes", "UPDATE"),
    ] {
        let spent = nanoseconds(&policies(n, resource, operation));
        let _ = writeln!(text, "{n} policies {what}: {spent} ns per write");
    }
    #[expect(clippy::print_stdout, reason = "it is what this is for")]
    {
        print!("{text}");
    }
}
