//! The walk over a program. Every step charges what cel-go's cost tracker charges for it, and stops
//! as soon as the budget is used up.

use std::sync::Arc;

use super::{Activation, Bind, Call, Element, Fold, Index, MapEntry, Node, Program, Select};
use crate::cost::{LIST_CREATE, MAP_CREATE, STRUCT_CREATE, traversal};
use crate::env::Overload;
use crate::error::Error;
use crate::types::Type;
use crate::value::{Key, List, Map, NativeMap, Text, Value};
use crate::work;

pub(super) struct Frame<'a, 'v> {
    program: &'a Program,
    activation: &'v dyn Activation<'a>,
    /// Accumulators and variables of folds; an accumulator may be an error.
    locals: Vec<Local<'a>>,
    cost: u64,
    budget: u64,
    /// Memory of all that was made so far, also if it is gone again.
    n_bytes: usize,
    /// Nodes that were looked at since that was last told.
    n_nodes: usize,
}

/// So much one evaluation may make: what it costs does not bound that.
const BYTES_MAX: usize = 128 << 20;

/// What a slot holds.
enum Local<'a> {
    Value(Result<Value<'a>, Error>),
    /// A binding that nobody used yet.
    Unused(&'a Node),
}

type Result1<'a> = Result<Value<'a>, Error>;

impl<'a, 'v> Frame<'a, 'v> {
    pub(super) fn new(
        program: &'a Program,
        activation: &'v dyn Activation<'a>,
        budget: u64,
    ) -> Self {
        Self { program, activation, locals: Vec::new(), cost: 0, budget, n_bytes: 0, n_nodes: 0 }
    }

    pub(super) fn cost(&self) -> u64 {
        self.cost
    }

    fn charge(&mut self, n: u64) -> Result<(), Error> {
        self.cost = self.cost.saturating_add(n);
        if self.cost > self.budget { Err(Error::CostExceeded) } else { Ok(()) }
    }

    fn make(&mut self, n_bytes: usize) -> Result<(), Error> {
        self.n_bytes += n_bytes;
        if self.n_bytes > BYTES_MAX { Err(Error::CostExceeded) } else { Ok(()) }
    }

    pub(super) fn eval(&mut self, node: &'a Node) -> Result1<'a> {
        self.n_nodes += 1;
        match node {
            Node::Constant(value) => Ok(constant(value)),
            Node::Variable { name, charge } => {
                self.charge(*charge)?;
                let value = self.activation.resolve(name);
                value.ok_or_else(|| Error::NoSuchAttribute(name.to_string()))
            }
            Node::Local { slot, charge } => self.local(*slot, *charge),
            Node::Select(select) => self.select(select),
            Node::Has { operand, field } => self.has(operand, field),
            Node::Index(index) => self.index(index),
            Node::And(_)
            | Node::Or(_)
            | Node::NotStrictlyFalse(_)
            | Node::Not(_)
            | Node::Equals { .. } => self.test(node).map(Value::Bool),
            Node::Conditional(parts) => self.conditional(parts),
            Node::OptionalOr { sides, unwraps } => self.optional_or(sides, *unwraps),
            Node::InSet { value, set } => {
                let value = self.eval(value)?;
                let key = Key::from_value(&value);
                Ok(Value::Bool(key.is_some_and(|key| set.contains(&key))))
            }
            Node::Call(call) => self.call(call),
            Node::List(elements) => self.list(elements),
            Node::Map(entries) => self.map(entries),
            Node::Struct { name, fields } => self.object(name, fields),
            Node::Fold(fold) => self.fold(fold),
            Node::Bind(bind) => self.bind(bind),
            Node::Append { slot, element } => self.append(*slot, element),
            Node::Insert { slot, key, value } => self.insert(*slot, key.as_deref(), value),
        }
    }

    /// The truth of a node. That most of these are no values on their way saves time.
    fn test(&mut self, node: &'a Node) -> Result<bool, Error> {
        self.n_nodes += 1;
        match node {
            Node::And(sides) => self.logical(sides, false),
            Node::Or(sides) => self.logical(sides, true),
            Node::NotStrictlyFalse(arg) => {
                let value = self.test(arg);
                self.charge(1)?;
                match value {
                    Ok(value) => Ok(value),
                    Err(Error::CostExceeded) => Err(Error::CostExceeded),
                    Err(_) => Ok(true),
                }
            }
            Node::Not(arg) => {
                let value = self.test(arg);
                self.charge(1)?;
                value.map(|it| !it)
            }
            Node::Equals { sides, negated } => self.equals(sides, *negated),
            Node::Local { slot, charge }
                if let Local::Value(Ok(Value::Bool(value))) = self.locals[*slot] =>
            {
                self.charge(*charge)?;
                Ok(value)
            }
            Node::Constant(Value::Bool(value)) => Ok(*value),
            other => self.eval(other)?.as_bool().ok_or(Error::NoSuchOverload),
        }
    }

    /// What a step costs is charged also if its operand failed, as upstream does: the error may be
    /// absorbed later.
    fn eval_then_charge(&mut self, node: &'a Node, n: u64) -> Result1<'a> {
        let value = self.eval(node);
        if matches!(value, Err(Error::CostExceeded)) {
            return value;
        }
        self.charge(n)?;
        value
    }

    fn local(&mut self, slot: usize, charge: u64) -> Result1<'a> {
        if let Local::Unused(init) = self.locals[slot] {
            // It was planned where nothing was declared above it; by now something may be.
            let above = self.locals.split_off(slot + 1);
            let value = self.eval(init);
            self.locals.truncate(slot + 1);
            self.locals[slot] = Local::Value(value);
            self.locals.extend(above);
        }
        self.charge(charge)?;
        match &self.locals[slot] {
            Local::Value(value) => value.clone(),
            Local::Unused(_) => Err(Error::NoSuchOverload),
        }
    }

    fn select(&mut self, select: &'a Select) -> Result1<'a> {
        // The field of a variable of a fold: no need for a copy of the variable.
        if let Node::Local { slot, charge } = select.operand
            && let Local::Value(Ok(Value::Map(Map::Json { entries, shape }))) = &self.locals[slot]
            && !select.is_optional
        {
            let (entries, shape) = (*entries, *shape);
            self.charge(charge + select.extra + 1)?;
            let found = shape.get(entries, &select.field)?;
            return found.ok_or_else(|| Error::NoSuchKey(select.field.to_string()));
        }
        let operand = self.eval_then_charge(&select.operand, select.extra)?;
        match operand {
            Value::Optional(None) => Ok(Value::NONE),
            Value::Optional(Some(inner)) => self.select_if_there(&inner, &select.field),
            operand if select.is_optional => self.select_if_there(&operand, &select.field),
            operand => {
                self.charge(1)?;
                field(&operand, &select.field)?
                    .ok_or_else(|| Error::NoSuchKey(select.field.to_string()))
            }
        }
    }

    fn select_if_there(&mut self, operand: &Value<'a>, name: &str) -> Result1<'a> {
        let Some(value) = field(operand, name)? else { return Ok(Value::NONE) };
        self.charge(1)?;
        Ok(Value::some(value))
    }

    fn has(&mut self, operand: &'a Node, name: &str) -> Result1<'a> {
        let operand = self.eval(operand)?;
        self.charge(1)?;
        let has = |value: &Value<'a>| match value {
            Value::Map(map) => map.has(name),
            _ => Err(Error::NoSuchKey(name.to_owned())),
        };
        match &operand {
            Value::Optional(None) => Ok(Value::Bool(false)),
            Value::Optional(Some(inner)) => has(inner).map(Value::Bool),
            other => has(other).map(Value::Bool),
        }
    }

    fn index(&mut self, index: &'a Index) -> Result1<'a> {
        let operand = self.eval_then_charge(&index.operand, index.extra)?;
        let (container, is_optional) = match operand {
            Value::Optional(None) => return Ok(Value::NONE),
            Value::Optional(Some(inner)) => ((*inner).clone(), true),
            other => (other, index.is_optional),
        };
        if is_optional {
            let key = self.eval(&index.index)?;
            let Some(value) = element(&container, &key)? else { return Ok(Value::NONE) };
            self.charge(index.own)?;
            return Ok(Value::some(value));
        }
        let key = self.eval_then_charge(&index.index, index.own)?;
        let found = element(&container, &key)?;
        found.ok_or_else(|| missing(&container, &key))
    }

    /// `&&` with `deciding` false, `||` with true. An error counts only if the other side does not
    /// decide.
    fn logical(&mut self, sides: &'a [Node; 2], deciding: bool) -> Result<bool, Error> {
        let mut failure = None;
        for side in sides {
            match self.test(side) {
                Ok(value) if value == deciding => return Ok(deciding),
                Ok(_) => {}
                Err(Error::CostExceeded) => return Err(Error::CostExceeded),
                Err(err) => failure = failure.or(Some(err)),
            }
        }
        failure.map_or(Ok(!deciding), Err)
    }

    fn conditional(&mut self, [condition, then, otherwise]: &'a [Node; 3]) -> Result1<'a> {
        if self.test(condition)? { self.eval(then) } else { self.eval(otherwise) }
    }

    fn equals(&mut self, [left, right]: &'a [Node; 2], negated: bool) -> Result<bool, Error> {
        let left = match self.eval(left) {
            Ok(left) => left,
            Err(err) => return Err(self.fail_first(None, right, err)),
        };
        let right = match self.eval(right) {
            Ok(right) => right,
            Err(err) => return Err(self.fail(None, &[left, Value::Null], err)),
        };
        self.charge(cost_of_equality(&left, &right))?;
        Ok(left.equals(&right)? != negated)
    }

    #[inline(never)]
    fn optional_or(&mut self, [left, right]: &'a [Node; 2], unwraps: bool) -> Result1<'a> {
        match self.eval(left)? {
            Value::Optional(Some(inner)) if unwraps => Ok((*inner).clone()),
            Value::Optional(None) => self.eval(right),
            other => Ok(other),
        }
    }

    fn call(&mut self, call: &'a Call) -> Result1<'a> {
        match &call.args[..] {
            [one] => match self.eval(one) {
                Ok(one) => self.apply(call, &[one]),
                Err(err) => Err(self.fail(Some(call), &[Value::Null], err)),
            },
            [one, two] => {
                let one = match self.eval(one) {
                    Ok(one) => one,
                    Err(err) => return Err(self.fail_first(Some(call), two, err)),
                };
                match self.eval(two) {
                    Ok(two) => self.apply(call, &[one, two]),
                    Err(err) => Err(self.fail(Some(call), &[one, Value::Null], err)),
                }
            }
            many => {
                let mut args = Vec::with_capacity(many.len());
                for (index, arg) in many.iter().enumerate() {
                    match self.eval(arg) {
                        Ok(value) => args.push(value),
                        Err(err) if index + 1 == many.len() => {
                            args.push(Value::Null);
                            return Err(self.fail(Some(call), &args, err));
                        }
                        // Upstream looks at no argument after it, and misses the call.
                        Err(err) => return Err(err),
                    }
                }
                self.apply(call, &args)
            }
        }
    }

    /// The end of a call (or of an equality) whose first operand of two failed: the second is
    /// evaluated all the same.
    #[cold]
    fn fail_first(&mut self, call: Option<&'a Call>, second: &'a Node, err: Error) -> Error {
        if err == Error::CostExceeded {
            return err;
        }
        match self.eval(second) {
            Ok(second) => self.fail(call, &[Value::Null, second], err),
            Err(Error::CostExceeded) => Error::CostExceeded,
            Err(_) => self.fail(call, &[Value::Null, Value::Null], err),
        }
    }

    /// The end of a call (or of an equality) with an operand that failed; that has the size of null.
    #[cold]
    fn fail(&mut self, call: Option<&'a Call>, args: &[Value<'a>], err: Error) -> Error {
        if err == Error::CostExceeded {
            return err;
        }
        let cost = match (call, args) {
            (Some(call), args) => call.cost.map_or(1, |cost| cost(args, None)),
            (None, [left, right]) => cost_of_equality(left, right),
            (None, _) => 1,
        };
        self.charge(cost).err().unwrap_or(err)
    }

    fn apply(&mut self, call: &'a Call, args: &[Value<'a>]) -> Result1<'a> {
        let result = match (&call.prepared, &call.overloads[..]) {
            (Some(prepared), _) => (prepared.0)(args),
            (None, [only]) => (only.implementation)(args),
            (None, several) => match several.iter().find(|it| fits(it, args)) {
                Some(overload) => (overload.implementation)(args),
                None => Err(Error::NoSuchOverload),
            },
        };
        let cost = call.cost.map_or(1, |cost| cost(args, result.as_ref().ok()));
        self.charge(cost)?;
        match result {
            Ok(value) => {
                let n_bytes = value.n_bytes_made();
                if n_bytes > 0 {
                    self.make(n_bytes)?;
                    work::take(work::of_bytes(n_bytes))?;
                }
                Ok(value)
            }
            Err(Error::NoSuchOverload) => Err(no_such_overload(&call.name, args)),
            Err(err) => Err(err),
        }
    }

    #[inline(never)]
    fn list(&mut self, elements: &'a [Element]) -> Result1<'a> {
        self.charge(LIST_CREATE)?;
        self.make(elements.len() * size_of::<Value<'_>>())?;
        let mut items = Vec::with_capacity(elements.len());
        for element in elements {
            items.extend(self.element(element)?);
        }
        Ok(Value::list(items))
    }

    /// The value of an element, or nothing if it is optional and not there.
    fn element(&mut self, element: &'a Element) -> Result<Option<Value<'a>>, Error> {
        let value = self.eval(&element.node)?;
        match value {
            Value::Optional(inner) if element.is_optional => Ok(inner.map(Arc::unwrap_or_clone)),
            _ if element.is_optional => {
                let what = format!(
                    "cannot initialize optional list element from non-optional value {value}"
                );
                Err(Error::refused(what))
            }
            other => Ok(Some(other)),
        }
    }

    #[inline(never)]
    fn map(&mut self, entries: &'a [MapEntry]) -> Result1<'a> {
        self.charge(MAP_CREATE)?;
        self.make(entries.len() * 2 * size_of::<Value<'_>>())?;
        let mut map = NativeMap::default();
        for entry in entries {
            let key = key(&self.eval(&entry.key)?)?;
            if let Some(value) = self.element(&entry.value)? {
                // As upstream: of one key the last value counts.
                map.insert(key, value);
            }
        }
        Ok(map.into())
    }

    #[inline(never)]
    fn object(&mut self, name: &str, fields: &'a [(Arc<str>, Element)]) -> Result1<'a> {
        self.charge(STRUCT_CREATE)?;
        let mut values = Vec::with_capacity(fields.len());
        for (field, element) in fields {
            if let Some(value) = self.element(element)? {
                values.push((field.clone(), value));
            }
        }
        self.program.provider.construct(name, values)
    }

    fn set(&mut self, slot: usize, value: Result<Value<'a>, Error>) {
        while self.locals.len() <= slot {
            self.locals.reserve(self.program.n_locals);
            self.locals.push(Local::Value(Ok(Value::Null)));
        }
        self.locals[slot] = Local::Value(value);
    }

    #[inline(never)]
    fn bind(&mut self, bind: &'a Bind) -> Result1<'a> {
        self.eval(&bind.range)?;
        self.set(bind.slot, Ok(Value::Null));
        self.locals[bind.slot] = Local::Unused(&bind.init);
        self.eval(&bind.result)
    }

    #[inline(never)]
    fn fold(&mut self, fold: &'a Fold) -> Result1<'a> {
        let range = self.eval(&fold.range)?;
        let init = self.eval(&fold.init);
        self.set(fold.slot, init);
        match &range {
            Value::List(list) => {
                for index in 0..list.len() {
                    let Some(item) = list.get(index)? else { break };
                    let index = i64::try_from(index).unwrap_or(i64::MAX);
                    let first = fold.has_two.then_some(Value::Int(index));
                    if !self.round(fold, first, item)? {
                        break;
                    }
                }
            }
            Value::Map(map) => {
                for key in map.keys() {
                    let name = key.to_value();
                    let go_on = if fold.has_two {
                        let Some(value) = map.get(&key)? else { continue };
                        self.round(fold, Some(name), value)?
                    } else {
                        self.round(fold, None, name)?
                    };
                    if !go_on {
                        break;
                    }
                }
            }
            other => {
                let what = format!("got '{}', expected iterable type", go_type(other));
                return Err(Error::refused(what));
            }
        }
        self.eval(&fold.result)
    }

    /// One round of a fold; whether there may be another.
    fn round(
        &mut self,
        fold: &'a Fold,
        first: Option<Value<'a>>,
        last: Value<'a>,
    ) -> Result<bool, Error> {
        let mut slot = fold.slot + 1;
        if let Some(first) = first {
            self.set(slot, Ok(first));
            slot += 1;
        }
        self.set(slot, Ok(last));
        work::take(std::mem::take(&mut self.n_nodes))?;
        match self.test(&fold.condition) {
            Ok(false) => return Ok(false),
            Err(Error::CostExceeded) => return Err(Error::CostExceeded),
            _ => {}
        }
        let value = self.eval(&fold.step);
        if matches!(value, Err(Error::CostExceeded)) {
            return Err(Error::CostExceeded);
        }
        let go_on = value.is_ok() || !fold.is_unconditional;
        self.locals[fold.slot] = Local::Value(value);
        Ok(go_on)
    }

    fn take(&mut self, slot: usize) -> Result1<'a> {
        match std::mem::replace(&mut self.locals[slot], Local::Value(Ok(Value::Null))) {
            Local::Value(value) => value,
            Local::Unused(_) => Err(Error::NoSuchOverload),
        }
    }

    fn append(&mut self, slot: usize, element: &'a Node) -> Result1<'a> {
        // The accumulator, the list of one, and the sum.
        let element = self.eval_then_charge(element, 1 + LIST_CREATE + 1)?;
        match self.take(slot)? {
            Value::List(List::Native(mut items)) => {
                Arc::make_mut(&mut items).push(element);
                Ok(Value::List(List::Native(items)))
            }
            _ => Err(Error::NoSuchOverload),
        }
    }

    #[inline(never)]
    fn insert(&mut self, slot: usize, key: Option<&'a Node>, value: &'a Node) -> Result1<'a> {
        self.charge(1)?;
        let name = match key {
            Some(node) => Some(self::key(&self.eval(node)?)?),
            None => None,
        };
        let value = self.eval_then_charge(value, 1)?;
        let Value::Map(Map::Native(mut map)) = self.take(slot)? else {
            return Err(Error::NoSuchOverload);
        };
        let target = Arc::make_mut(&mut map);
        match (name, value) {
            (Some(name), value) => insert_new(target, name, value)?,
            (None, Value::Map(more)) => {
                for key in more.keys() {
                    let Some(value) = more.get(&key)? else { continue };
                    insert_new(target, key, value)?;
                }
            }
            (None, _) => return Err(Error::NoSuchOverload),
        }
        Ok(Value::Map(Map::Native(map)))
    }
}

/// A text of the program is lent: counting its owners takes time.
fn constant<'a>(value: &'a Value<'static>) -> Value<'a> {
    match value {
        Value::String(text) => Value::String(Text::Borrowed(text)),
        other => other.clone(),
    }
}

fn cost_of_equality(left: &Value<'_>, right: &Value<'_>) -> u64 {
    match left {
        Value::Opaque(_) => 1,
        _ => traversal(left.size().min(right.size())),
    }
}

fn insert_new<'a>(map: &mut NativeMap<'a>, key: Key<'a>, value: Value<'a>) -> Result<(), Error> {
    if map.contains(&key) {
        let what = format!("insert failed: key {} already exists", show(&key.to_value()));
        return Err(Error::refused(what));
    }
    map.insert(key, value);
    Ok(())
}

fn field<'a>(operand: &Value<'a>, name: &str) -> Result<Option<Value<'a>>, Error> {
    match operand {
        Value::Map(map) => map.get_str(name),
        _ => Err(Error::NoSuchKey(name.to_owned())),
    }
}

fn element<'a>(container: &Value<'a>, key: &Value<'_>) -> Result<Option<Value<'a>>, Error> {
    match container {
        Value::List(list) => match usize::try_from(position(key)?) {
            Ok(index) => list.get(index),
            Err(_) => Ok(None),
        },
        Value::Map(map) => match Key::from_value(key) {
            Some(key) => map.get(&key),
            None if matches!(key, Value::Double(_)) => Ok(None),
            None => Err(Error::refused(format!("unsupported key type: {}", key.type_name()))),
        },
        _ => Err(Error::NoSuchKey(show(key))),
    }
}

/// The index of a list that a number stands for.
fn position(index: &Value<'_>) -> Result<i64, Error> {
    match index {
        Value::Int(index) => Ok(*index),
        Value::Uint(index) => Ok(i64::try_from(*index).unwrap_or(i64::MAX)),
        Value::Double(_) => match Key::from_value(index) {
            Some(Key::Int(index)) => Ok(index),
            _ => Err(Error::refused(format!("unsupported index value {} in list", show(index)))),
        },
        other => {
            let what = format!("unsupported index type '{}' in list", other.type_name());
            Err(Error::refused(what))
        }
    }
}

fn missing(container: &Value<'_>, key: &Value<'_>) -> Error {
    match (container, position(key)) {
        (Value::List(_), Ok(index)) => Error::IndexOutOfBounds(index),
        _ => Error::NoSuchKey(show(key)),
    }
}

/// A value in an error text: strings without quotes.
fn show(value: &Value<'_>) -> String {
    match value {
        Value::String(text) => text.as_str().to_owned(),
        Value::Uint(value) => value.to_string(),
        other => other.to_string(),
    }
}

fn key<'a>(value: &Value<'a>) -> Result<Key<'a>, Error> {
    match value {
        Value::Double(_) => None,
        other => Key::from_value(other),
    }
    .ok_or_else(|| Error::refused(format!("unsupported key type: {}", value.type_name())))
}

/// Whether values are of the types of an overload, as far as that shows from outside.
pub(super) fn fits(overload: &Overload, args: &[Value<'_>]) -> bool {
    overload.params.len() == args.len()
        && overload.params.iter().zip(args).all(|(param, arg)| match (param, arg) {
            (Type::Dyn | Type::Param(_) | Type::Variable(_), _) => true,
            (param, Value::Map(map)) => match param {
                Type::Map(_) => true,
                Type::Object(name) => **name == *map.type_name(),
                _ => false,
            },
            (param, arg) => param.runtime_name() == arg.type_name(),
        })
}

/// Operators, and functions that the types themselves have upstream, do not say what they were
/// called with.
fn no_such_overload(name: &str, args: &[Value<'_>]) -> Error {
    const BARE: &[&str] = &["startsWith", "endsWith", "contains", "matches", "find", "findAll"];
    let is_operator = !name.starts_with(|it: char| it.is_ascii_alphabetic());
    if is_operator || BARE.contains(&name) {
        return Error::NoSuchOverload;
    }
    if name == "size" {
        return Error::NoSuchOverloadFor(name.to_owned());
    }
    let types: Vec<&str> = args.iter().map(Value::type_name).collect();
    Error::NoSuchOverloadFor(format!("{name}({})", types.join(", ")))
}

/// What cel-go calls the type of a value that is no list or map.
fn go_type(value: &Value<'_>) -> String {
    match value {
        Value::Null => "types.Null".to_owned(),
        Value::Bool(_) => "types.Bool".to_owned(),
        Value::Int(_) => "types.Int".to_owned(),
        Value::Uint(_) => "types.Uint".to_owned(),
        Value::Double(_) => "types.Double".to_owned(),
        Value::String(_) => "types.String".to_owned(),
        Value::Bytes(_) => "types.Bytes".to_owned(),
        Value::Duration(_) => "types.Duration".to_owned(),
        Value::Timestamp(_) => "types.Timestamp".to_owned(),
        other => other.type_name().to_owned(),
    }
}
