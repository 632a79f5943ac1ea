//! From the checked tree to the tree that is evaluated: variables by slot, overloads by pointer,
//! constants computed, accumulation in place.

use std::sync::Arc;

use super::{Bind, Call, Element, Fold, Index, MapEntry, Node, PreparedCall, Program, Select};
use crate::check::{Checked, Reference};
use crate::env::CostRule;
use crate::error::Error;
use crate::syntax::{Comprehension, Entry, Expr, Field, Kind, Literal};
use crate::value::{Bytes, Key, NativeMap, Text, Value};

/// Whether what is made of constants is computed beforehand and then free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Folding {
    On,
    Off,
}

const CONVERSIONS: &[&str] =
    &["bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"];

pub(crate) fn plan(checked: &Checked, folding: Folding) -> Result<Program, Error> {
    let mut planner = Planner { checked, folding, locals: Vec::new(), n_locals: 0 };
    let root = planner.plan(&checked.root)?;
    let provider = checked.env.get_provider().clone();
    Ok(Program { root, n_locals: planner.n_locals, provider })
}

struct Planner<'c> {
    checked: &'c Checked,
    folding: Folding,
    /// Names of the slots in scope.
    locals: Vec<Arc<str>>,
    n_locals: usize,
}

type Planned = Result<Node, Error>;

impl Planner<'_> {
    fn plan(&mut self, expr: &Expr) -> Planned {
        match &expr.kind {
            Kind::Literal(literal) => Ok(Node::Constant(constant(literal))),
            Kind::Ident(name) => Ok(self.plan_ident(expr, name)),
            Kind::Select { operand, field, test: true } => {
                let operand = Box::new(free_root(self.plan(operand)?));
                Ok(Node::Has { operand, field: field.clone() })
            }
            Kind::Select { operand, field, .. } => self.plan_select(operand, field, false),
            Kind::Call { function, target, args } => {
                self.plan_call(expr, function, target.as_deref(), args)
            }
            Kind::List { elements, optional } => self.plan_list(elements, optional),
            Kind::Map(entries) => self.plan_map(entries),
            Kind::Struct { name, fields } => self.plan_struct(name, fields),
            Kind::Comprehension(fold) if fold.is_binding() => self.plan_binding(fold),
            Kind::Comprehension(fold) => self.plan_fold(fold),
        }
    }

    fn plan_ident(&self, expr: &Expr, name: &Arc<str>) -> Node {
        if let Some(slot) = self.locals.iter().rposition(|it| it == name) {
            return Node::Local { slot, charge: 1 };
        }
        match self.checked.references.get(expr.id) {
            Some(Some(Reference::Name { constant: Some(value) })) => Node::Constant(value.clone()),
            _ => Node::Variable { name: name.clone(), charge: 1 },
        }
    }

    fn plan_select(&mut self, operand: &Expr, field: &Arc<str>, is_optional: bool) -> Planned {
        let operand = self.plan(operand)?;
        let extra = u64::from(!is_attribute(&operand));
        Ok(Node::Select(Box::new(Select { operand, field: field.clone(), is_optional, extra })))
    }

    fn plan_call(
        &mut self,
        expr: &Expr,
        function: &Arc<str>,
        target: Option<&Expr>,
        args: &[Expr],
    ) -> Planned {
        match (&**function, args) {
            ("_?._", [operand, Expr { kind: Kind::Literal(Literal::String(field)), .. }]) => {
                return self.plan_select(operand, field, true);
            }
            ("_[_]" | "_[?_]", [operand, index]) => {
                return self.plan_index(operand, index, &**function == "_[?_]");
            }
            _ => {}
        }
        let mut nodes = Vec::with_capacity(args.len() + 1);
        for arg in target.into_iter().chain(args) {
            nodes.push(self.plan(arg)?);
        }
        match self.operator(function, nodes) {
            Ok(node) => Ok(node),
            Err(nodes) => self.plan_function(expr, function, nodes),
        }
    }

    /// Operators with an evaluation of their own; else the arguments back.
    fn operator(&self, function: &str, nodes: Vec<Node>) -> Result<Node, Vec<Node>> {
        match function {
            "_&&_" => pair(nodes).map(Node::And),
            "_||_" => pair(nodes).map(Node::Or),
            "_==_" => pair(nodes).map(|sides| Node::Equals { sides, negated: false }),
            "_!=_" => pair(nodes).map(|sides| Node::Equals { sides, negated: true }),
            "or" => pair(nodes).map(|sides| Node::OptionalOr { sides, unwraps: false }),
            "orValue" => pair(nodes).map(|sides| Node::OptionalOr { sides, unwraps: true }),
            "_?_:_" => {
                let [condition, then, otherwise]: [Node; 3] = nodes.try_into()?;
                let parts = [condition, free_root(then), free_root(otherwise)];
                Ok(Node::Conditional(Box::new(parts)))
            }
            "@not_strictly_false" => {
                let [arg]: [Node; 1] = nodes.try_into()?;
                Ok(Node::NotStrictlyFalse(Box::new(arg)))
            }
            "!_" => {
                let [arg]: [Node; 1] = nodes.try_into()?;
                Ok(Node::Not(Box::new(arg)))
            }
            _ => Err(nodes),
        }
    }

    fn plan_function(&mut self, expr: &Expr, function: &Arc<str>, args: Vec<Node>) -> Planned {
        let overloads = self.checked.overloads(expr.id).to_vec();
        let is_resolved = overloads.len() == 1;
        let folds = self.folding == Folding::On;
        if folds && let Some(node) = in_constant(&overloads, &args) {
            return Ok(node);
        }
        let cost = overloads.first().and_then(|it| match it.cost {
            CostRule::Always(cost) => Some(cost),
            CostRule::Resolved(cost) if is_resolved => Some(cost),
            CostRule::Resolved(_) | CostRule::Unit => None,
        });
        let constants: Vec<Option<&Value<'static>>> = args.iter().map(as_constant).collect();
        let prepare = overloads.first().filter(|_| is_resolved).and_then(|it| it.prepare);
        let prepared = prepare.and_then(|prepare| prepare(&constants)).transpose()?;
        let prepared = prepared.map(PreparedCall);
        if let ([Some(value)], true) = (&constants[..], folds && CONVERSIONS.contains(&&**function))
        {
            let value = convert(&overloads, (*value).clone())?;
            return Ok(Node::Constant(value));
        }
        let overloads = if is_one(&overloads) { overloads[..1].to_vec() } else { overloads };
        Ok(Node::Call(Box::new(Call { name: function.clone(), overloads, args, prepared, cost })))
    }

    fn plan_index(&mut self, operand: &Expr, index: &Expr, is_optional: bool) -> Planned {
        let operand = self.plan(operand)?;
        let index = self.plan(index)?;
        // An index that is a path itself is not counted apart; one that is a conditional makes the
        // step free (upstream, `interpreter/runtimecost.go`).
        let own = u64::from(!matches!(index, Node::Conditional(_)));
        let extra = u64::from(!is_attribute(&operand));
        let index = if is_attribute(&index) { free_root(index) } else { index };
        Ok(Node::Index(Box::new(Index { operand, index, is_optional, own, extra })))
    }

    fn plan_list(&mut self, elements: &[Expr], optional: &[usize]) -> Planned {
        let mut nodes = Vec::with_capacity(elements.len());
        for (index, element) in elements.iter().enumerate() {
            nodes.push(Element {
                node: self.plan(element)?,
                is_optional: optional.contains(&index),
            });
        }
        let is_constant = nodes.iter().all(|it| !it.is_optional && as_constant(&it.node).is_some());
        if self.folding == Folding::On && is_constant {
            let values = nodes.iter().filter_map(|it| as_constant(&it.node).cloned());
            return Ok(Node::Constant(Value::list(values.collect())));
        }
        Ok(Node::List(nodes))
    }

    fn plan_map(&mut self, entries: &[Entry]) -> Planned {
        let mut nodes = Vec::with_capacity(entries.len());
        for entry in entries {
            let key = self.plan(&entry.key)?;
            let value = Element { node: self.plan(&entry.value)?, is_optional: entry.optional };
            nodes.push(MapEntry { key, value });
        }
        if self.folding == Folding::On
            && let Some(map) = constant_map(&nodes)
        {
            return Ok(Node::Constant(map.into()));
        }
        Ok(Node::Map(nodes))
    }

    fn plan_struct(&mut self, name: &Arc<str>, fields: &[Field]) -> Planned {
        let mut nodes = Vec::with_capacity(fields.len());
        for field in fields {
            let node = self.plan(&field.value)?;
            nodes.push((field.name.clone(), Element { node, is_optional: field.optional }));
        }
        Ok(Node::Struct { name: name.clone(), fields: nodes })
    }

    fn declare(&mut self, name: &Arc<str>) -> usize {
        self.locals.push(name.clone());
        self.n_locals = self.n_locals.max(self.locals.len());
        self.locals.len() - 1
    }

    fn plan_binding(&mut self, fold: &Comprehension) -> Planned {
        let range = self.plan(&fold.range)?;
        let init = self.plan(&fold.init)?;
        let slot = self.declare(&fold.accumulator);
        let result = self.plan(&fold.result)?;
        self.locals.pop();
        Ok(Node::Bind(Box::new(Bind { range, init, result, slot })))
    }

    fn plan_fold(&mut self, fold: &Comprehension) -> Planned {
        let range = self.plan(&fold.range)?;
        let init = self.plan(&fold.init)?;
        let slot = self.declare(&fold.accumulator);
        self.declare(&fold.variable);
        if let Some(name) = &fold.variable2 {
            self.declare(name);
        }
        let condition = self.plan(&fold.condition)?;
        let step = self.plan_step(&fold.step, slot)?;
        self.locals.truncate(slot + 1);
        let result = self.plan(&fold.result)?;
        self.locals.truncate(slot);
        let has_two = fold.variable2.is_some();
        let is_unconditional = matches!(condition, Node::Constant(Value::Bool(true)));
        Ok(Node::Fold(Box::new(Fold {
            range,
            init,
            condition,
            step,
            result,
            slot,
            has_two,
            is_unconditional,
        })))
    }

    /// A step that only makes the accumulator longer does so in place.
    fn plan_step(&mut self, step: &Expr, slot: usize) -> Planned {
        let accumulator = self.locals[slot].clone();
        let is_accumulator = |it: &Expr| it.kind == Kind::Ident(accumulator.clone());
        let Kind::Call { function, target: None, args } = &step.kind else {
            return self.plan(step);
        };
        match (&**function, &args[..]) {
            ("_+_", [left, Expr { kind: Kind::List { elements, optional }, .. }])
                if is_accumulator(left) && elements.len() == 1 && optional.is_empty() =>
            {
                let element = Box::new(self.plan(&elements[0])?);
                Ok(Node::Append { slot, element })
            }
            ("cel.@mapInsert", [left, key, value]) if is_accumulator(left) => {
                let key = Some(Box::new(self.plan(key)?));
                Ok(Node::Insert { slot, key, value: Box::new(self.plan(value)?) })
            }
            ("cel.@mapInsert", [left, value]) if is_accumulator(left) => {
                Ok(Node::Insert { slot, key: None, value: Box::new(self.plan(value)?) })
            }
            ("_?_:_", [condition, then, otherwise]) => {
                let parts = [
                    self.plan(condition)?,
                    free_root(self.plan_step(then, slot)?),
                    free_root(self.plan(otherwise)?),
                ];
                Ok(Node::Conditional(Box::new(parts)))
            }
            _ => self.plan(step),
        }
    }
}

fn pair(nodes: Vec<Node>) -> Result<Box<[Node; 2]>, Vec<Node>> {
    nodes.try_into().map(Box::new)
}

fn constant(literal: &Literal) -> Value<'static> {
    match literal {
        Literal::Null => Value::Null,
        Literal::Bool(value) => Value::Bool(*value),
        Literal::Int(value) => Value::Int(*value),
        Literal::Uint(value) => Value::Uint(*value),
        Literal::Double(value) => Value::Double(*value),
        Literal::String(text) => Value::String(Text::Shared(text.clone())),
        Literal::Bytes(bytes) => Value::Bytes(Bytes::Shared(bytes.clone())),
    }
}

fn as_constant(node: &Node) -> Option<&Value<'static>> {
    match node {
        Node::Constant(value) => Some(value),
        _ => None,
    }
}

/// A path that starts at a variable, or a choice of paths.
fn is_attribute(node: &Node) -> bool {
    matches!(
        node,
        Node::Variable { .. }
            | Node::Local { .. }
            | Node::Select(_)
            | Node::Index(_)
            | Node::Conditional(_)
            | Node::Has { .. }
    )
}

/// The same path without what its start costs: upstream does not count that when it is the branch
/// of a conditional or an index (`interpreter/runtimecost.go`).
fn free_root(node: Node) -> Node {
    match node {
        Node::Variable { name, .. } => Node::Variable { name, charge: 0 },
        Node::Local { slot, .. } => Node::Local { slot, charge: 0 },
        Node::Select(mut select) if select.extra > 0 => {
            select.extra = 0;
            Node::Select(select)
        }
        Node::Select(mut select) => {
            select.operand = free_root(select.operand);
            Node::Select(select)
        }
        Node::Index(mut index) if !is_attribute(&index.operand) => {
            index.extra = 0;
            Node::Index(index)
        }
        Node::Index(mut index) => {
            index.operand = free_root(index.operand);
            Node::Index(index)
        }
        other => other,
    }
}

fn constant_map(entries: &[MapEntry]) -> Option<NativeMap<'static>> {
    let mut map = NativeMap::default();
    for entry in entries {
        let key = Key::from_value(as_constant(&entry.key)?)?;
        if entry.value.is_optional {
            return None;
        }
        map.insert(key, as_constant(&entry.value.node)?.clone());
    }
    Some(map)
}

/// `x in [constants]`
fn in_constant(overloads: &[Arc<crate::env::Overload>], args: &[Node]) -> Option<Node> {
    let [overload] = overloads else { return None };
    let [value, Node::Constant(Value::List(list))] = args else { return None };
    if overload.id != "in_list" {
        return None;
    }
    if list.is_empty() {
        return Some(Node::Constant(Value::Bool(false)));
    }
    let mut set = NativeMap::default();
    for item in list.iter() {
        let item = item.ok()?;
        if matches!(item, Value::Double(value) if value.fract() != 0.0) {
            return None;
        }
        set.insert(Key::from_value(&item)?, Value::Bool(true));
    }
    Some(Node::InSet { value: Box::new(value.clone()), set: Arc::new(set) })
}

/// Whether all overloads are one implementation, which then looks at the arguments itself.
fn is_one(overloads: &[Arc<crate::env::Overload>]) -> bool {
    overloads.first().is_some_and(|first| {
        let is_same = |it: &Arc<crate::env::Overload>| {
            std::ptr::fn_addr_eq(it.implementation, first.implementation)
        };
        overloads.iter().all(is_same)
    })
}

fn convert(
    overloads: &[Arc<crate::env::Overload>],
    value: Value<'static>,
) -> Result<Value<'static>, Error> {
    let args = [value];
    let fitting = overloads.iter().find(|it| super::run::fits(it, &args));
    fitting.map_or(Err(Error::NoSuchOverload), |it| (it.implementation)(&args))
}
