//! `authorizer`: expressions that ask whether somebody may do something.
//!
//! Evaluation does not wait, but authorizers may. So checks are answered from a table, `Decisions`:
//! one that has no answer yet is noted there and fails, and whoever evaluates then gets the answers
//! (`take_asked`, `decide`) and evaluates anew, until nothing was asked (`is_settled`). Evaluation
//! is pure, so that the last round is the only one that counts; and a check is so dear (350,000)
//! that budgets allow few of them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cel::{
    CallEstimate, CallShape, CostEstimate, Error, Function, Library, Opaque, Overload,
    STRING_TRAVERSAL, SizeEstimate, Type, Value,
};

use crate::validation::{is_dns_label, is_dns_subdomain};

const AUTHORIZER: &str = "kubernetes.authorization.Authorizer";
const PATH_CHECK: &str = "kubernetes.authorization.PathCheck";
const GROUP_CHECK: &str = "kubernetes.authorization.GroupCheck";
const RESOURCE_CHECK: &str = "kubernetes.authorization.ResourceCheck";
const DECISION: &str = "kubernetes.authorization.Decision";

const CHECK_COST: u64 = 350_000;
/// A selector is a list of requirements, at most one for two characters, each a struct and a list.
const SELECTOR_BASE: u64 = 10;
const REQUIREMENTS_PER_CHARACTER: f64 = 0.5;
const REQUIREMENT_COST: f64 = 50.0;

/// Who is asked about.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Subject {
    /// Whoever made the request.
    Requester,
    ServiceAccount {
        namespace: String,
        name: String,
    },
}

/// What is asked about, without the verb.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Target {
    Path(String),
    Resource(Resource),
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Resource {
    pub group: String,
    pub resource: String,
    pub subresource: String,
    pub namespace: String,
    pub name: String,
    pub field_selector: String,
    pub label_selector: String,
}

/// One question.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Check {
    pub subject: Subject,
    pub target: Target,
    pub verb: String,
}

/// One answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Decision {
    pub is_allowed: bool,
    pub reason: String,
    /// Why there is no better answer.
    pub error: Option<String>,
}

impl Opaque for Decision {
    fn type_name(&self) -> &str {
        DECISION
    }

    fn equals(&self, other: &dyn Opaque) -> bool {
        other.downcast_ref::<Self>().is_some_and(|other| self == other)
    }
}

/// Answers for one request, and questions that have none yet.
#[derive(Debug, Default)]
pub struct Decisions(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    decided: HashMap<Check, Decision>,
    asked: Vec<Check>,
}

impl Decisions {
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether nothing was asked since `take_asked` that has no answer.
    pub fn is_settled(&self) -> bool {
        self.lock().asked.is_empty()
    }

    /// The questions since the last call.
    pub fn take_asked(&self) -> Vec<Check> {
        std::mem::take(&mut self.lock().asked)
    }

    pub fn decide(&self, check: Check, decision: Decision) {
        self.lock().decided.insert(check, decision);
    }

    fn find(&self, check: Check) -> Result<Decision, Error> {
        let mut table = self.lock();
        if let Some(decision) = table.decided.get(&check) {
            return Ok(decision.clone());
        }
        if !table.asked.contains(&check) {
            table.asked.push(check);
        }
        Err(Error::refused("the answer of the authorizer is not known yet"))
    }
}

/// The value of `authorizer`.
pub fn authorizer(decisions: &Arc<Decisions>) -> Value<'static> {
    Value::opaque(Authorizer { subject: Subject::Requester, decisions: decisions.clone() })
}

/// The value of `authorizer.requestResource`.
pub fn request_resource(decisions: &Arc<Decisions>, resource: Resource) -> Value<'static> {
    let authorizer = Authorizer { subject: Subject::Requester, decisions: decisions.clone() };
    Value::opaque(ResourceCheck { authorizer, resource })
}

pub fn authorizer_type() -> Type {
    Type::opaque(AUTHORIZER)
}

pub fn resource_check_type() -> Type {
    Type::opaque(RESOURCE_CHECK)
}

#[derive(Debug, Clone)]
struct Authorizer {
    subject: Subject,
    decisions: Arc<Decisions>,
}

#[derive(Debug, Clone)]
struct PathCheck {
    authorizer: Authorizer,
    path: String,
}

#[derive(Debug, Clone)]
struct GroupCheck {
    authorizer: Authorizer,
    group: String,
}

#[derive(Debug, Clone)]
struct ResourceCheck {
    authorizer: Authorizer,
    resource: Resource,
}

impl Authorizer {
    fn check(&self, target: Target, verb: &str) -> Result<Decision, Error> {
        let subject = self.subject.clone();
        self.decisions.find(Check { subject, target, verb: verb.to_owned() })
    }
}

macro_rules! opaque {
    ($($type:ident $name:ident |$a:ident, $b:ident| $equals:expr;)*) => {
        $(impl Opaque for $type {
            fn type_name(&self) -> &str {
                $name
            }

            fn equals(&self, other: &dyn Opaque) -> bool {
                let ($a, $b) = (self, other.downcast_ref::<Self>());
                $b.is_some_and(|$b| $equals)
            }
        })*
    };
}

opaque! {
    Authorizer AUTHORIZER |a, b| a.subject == b.subject;
    PathCheck PATH_CHECK |a, b| a.authorizer.subject == b.authorizer.subject && a.path == b.path;
    GroupCheck GROUP_CHECK |a, b| {
        a.authorizer.subject == b.authorizer.subject && a.group == b.group
    };
    ResourceCheck RESOURCE_CHECK |a, b| {
        a.authorizer.subject == b.authorizer.subject && a.resource == b.resource
    };
}

pub(super) fn library() -> Library {
    let (path, group) = (|| Type::opaque(PATH_CHECK), || Type::opaque(GROUP_CHECK));
    let (authorizer, resource) = (authorizer_type, resource_check_type);
    let decision = || Type::opaque(DECISION);
    let text = || Type::String;
    let narrow = |name, id, implementation| {
        Function::new(
            name,
            [Overload::member(id, [resource(), text()], resource(), implementation)],
        )
    };
    let select = |name, id, implementation| {
        let overload = Overload::member(id, [resource(), text()], resource(), implementation);
        Function::new(name, [overload.cost(cost_selector).estimate(estimate_selector)])
    };
    let checking = |id, it, implementation| {
        Overload::member(id, [it, text()], decision(), implementation)
            .cost(|_, _| CHECK_COST)
            .estimate(|_| Some(CallEstimate::of(CostEstimate::fixed(CHECK_COST))))
    };
    let tell = |name, id, result, implementation| {
        Function::new(name, [Overload::member(id, [decision()], result, implementation)])
    };
    Library::new(vec![
        Function::new(
            "path",
            [Overload::member("authorizer_path", [authorizer(), text()], path(), check_path)],
        ),
        Function::new(
            "group",
            [Overload::member("authorizer_group", [authorizer(), text()], group(), check_group)],
        ),
        Function::new(
            "serviceAccount",
            [Overload::member(
                "authorizer_serviceaccount",
                [authorizer(), text(), text()],
                authorizer(),
                service_account,
            )],
        ),
        Function::new(
            "resource",
            [Overload::member(
                "groupcheck_resource",
                [group(), text()],
                resource(),
                check_resource,
            )],
        ),
        narrow("subresource", "resourcecheck_subresource", subresource),
        narrow("namespace", "resourcecheck_namespace", namespace),
        narrow("name", "resourcecheck_name", name),
        select("fieldSelector", "authorizer_fieldselector", field_selector),
        select("labelSelector", "authorizer_labelselector", label_selector),
        Function::new(
            "check",
            [
                checking("pathcheck_check", path(), ask_path),
                checking("resourcecheck_check", resource(), ask_resource),
            ],
        ),
        tell("errored", "decision_errored", Type::Bool, errored),
        tell("error", "decision_error", Type::String, error),
        tell("allowed", "decision_allowed", Type::Bool, allowed),
        tell("reason", "decision_reason", Type::String, reason),
    ])
}

fn cost_selector(args: &[Value<'_>], _result: Option<&Value<'_>>) -> u64 {
    let size = args.get(1).map_or(0, Value::size);
    selector_cost(SizeEstimate::fixed(size)).max
}

fn estimate_selector(call: &CallShape<'_>) -> Option<CallEstimate> {
    Some(CallEstimate::of(selector_cost(call.operand_size(1)?)))
}

fn selector_cost(size: SizeEstimate) -> CostEstimate {
    let requirements = size.scaled(REQUIREMENTS_PER_CHARACTER).scaled(REQUIREMENT_COST);
    CostEstimate::fixed(SELECTOR_BASE).add(size.scaled(STRING_TRAVERSAL)).add(requirements)
}

/// The receiver and a text.
fn with_text<'s, T: Opaque>(args: &'s [Value<'_>]) -> Result<(&'s T, &'s str), Error> {
    let [receiver, Value::String(text)] = args else { return Err(Error::NoSuchOverload) };
    Ok((receiver.downcast_ref().ok_or(Error::NoSuchOverload)?, text.as_str()))
}

fn check_path<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let (authorizer, path) = with_text::<Authorizer>(args)?;
    if path.trim().is_empty() {
        return Err(Error::refused("path must not be empty"));
    }
    Ok(Value::opaque(PathCheck { authorizer: authorizer.clone(), path: path.to_owned() }))
}

fn check_group<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let (authorizer, group) = with_text::<Authorizer>(args)?;
    Ok(Value::opaque(GroupCheck { authorizer: authorizer.clone(), group: group.to_owned() }))
}

fn service_account<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let [authorizer, Value::String(namespace), Value::String(name)] = args else {
        return Err(Error::NoSuchOverload);
    };
    let authorizer = authorizer.downcast_ref::<Authorizer>().ok_or(Error::NoSuchOverload)?;
    if !is_dns_subdomain(name).is_empty() {
        return Err(Error::refused("Invalid service account name"));
    }
    if !is_dns_label(namespace).is_empty() {
        return Err(Error::refused("Invalid service account namespace"));
    }
    let (namespace, name) = (namespace.as_str().to_owned(), name.as_str().to_owned());
    let subject = Subject::ServiceAccount { namespace, name };
    Ok(Value::opaque(Authorizer { subject, ..authorizer.clone() }))
}

fn check_resource<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let (group, resource) = with_text::<GroupCheck>(args)?;
    if resource.trim().is_empty() {
        return Err(Error::refused("resource must not be empty"));
    }
    let (group, authorizer) = (group.group.clone(), group.authorizer.clone());
    let resource = Resource { group, resource: resource.to_owned(), ..Resource::default() };
    Ok(Value::opaque(ResourceCheck { authorizer, resource }))
}

/// The check with one field more.
fn narrowed<'a>(args: &[Value<'a>], set: fn(&mut Resource, String)) -> Result<Value<'a>, Error> {
    let (check, text) = with_text::<ResourceCheck>(args)?;
    let mut check = check.clone();
    set(&mut check.resource, text.to_owned());
    Ok(Value::opaque(check))
}

fn subresource<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    narrowed(args, |it, text| it.subresource = text)
}

fn namespace<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    narrowed(args, |it, text| it.namespace = text)
}

fn name<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    narrowed(args, |it, text| it.name = text)
}

fn field_selector<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    narrowed(args, |it, text| it.field_selector = text)
}

fn label_selector<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    narrowed(args, |it, text| it.label_selector = text)
}

fn ask_path<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let (check, verb) = with_text::<PathCheck>(args)?;
    let target = Target::Path(check.path.clone());
    check.authorizer.check(target, verb).map(Value::opaque)
}

fn ask_resource<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let (check, verb) = with_text::<ResourceCheck>(args)?;
    let target = Target::Resource(check.resource.clone());
    check.authorizer.check(target, verb).map(Value::opaque)
}

fn decision<'s>(args: &'s [Value<'_>]) -> Result<&'s Decision, Error> {
    args.first().and_then(Value::downcast_ref).ok_or(Error::NoSuchOverload)
}

fn errored<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    decision(args).map(|it| Value::Bool(it.error.is_some()))
}

fn error<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    decision(args).map(|it| it.error.clone().unwrap_or_default().into())
}

fn allowed<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    decision(args).map(|it| Value::Bool(it.is_allowed))
}

fn reason<'a>(args: &[Value<'a>]) -> Result<Value<'a>, Error> {
    decision(args).map(|it| it.reason.clone().into())
}
