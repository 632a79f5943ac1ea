//! The least and the most that an expression can cost, before anything is evaluated. Sizes come from
//! literals, from what calls say about their results, and from the host by path.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;

use crate::check::Checked;
use crate::cost::{
    CallEstimate, CostEstimate, LIST_CREATE, MAP_CREATE, STRING_TRAVERSAL, STRUCT_CREATE,
    SizeEstimate,
};
use crate::syntax::{Comprehension, Entry, Expr, ExprId, Kind, Literal};
use crate::types::Type;

/// What the host knows about sizes and costs.
pub trait Sizer {
    /// The size of what is at a path, such as `self`, `items`, `@items`, `name`. Elements of lists
    /// are `@items`, indices `@indices`, keys and values of maps `@keys` and `@values`.
    fn size(&self, operand: &Operand<'_>) -> Option<SizeEstimate>;

    /// The cost of a call, if that is not for the overload to say.
    fn call(&self, _call: &CallShape<'_>) -> Option<CallEstimate> {
        None
    }
}

/// Nothing is known: strings, lists and maps have any size.
#[derive(Debug, Clone, Copy)]
pub struct AnySize;

impl Sizer for AnySize {
    fn size(&self, _operand: &Operand<'_>) -> Option<SizeEstimate> {
        None
    }
}

/// An argument of a call, or anything else with a size.
#[derive(Debug, Clone)]
pub struct Operand<'e> {
    /// Empty if it cannot be reached from a variable.
    pub path: Vec<Arc<str>>,
    pub of_type: &'e Type,
    pub literal: Option<&'e Literal>,
    /// What the expression tells about the size.
    pub computed: Option<SizeEstimate>,
}

/// A call whose cost is asked for.
pub struct CallShape<'e> {
    pub function: &'e str,
    pub overload: &'static str,
    pub target: Option<&'e Operand<'e>>,
    pub args: &'e [Operand<'e>],
    pub sizer: &'e dyn Sizer,
}

impl<'e> CallShape<'e> {
    pub fn size(&self, operand: &Operand<'_>) -> SizeEstimate {
        let known = operand.computed.or_else(|| self.sizer.size(operand));
        known.unwrap_or(SizeEstimate::UNKNOWN)
    }

    /// The target or argument at this index, the target being the first of a member.
    pub fn operand(&self, index: usize) -> Option<&'e Operand<'e>> {
        match self.target {
            Some(target) if index == 0 => Some(target),
            Some(_) => self.args.get(index - 1),
            None => self.args.get(index),
        }
    }

    pub fn operand_size(&self, index: usize) -> Option<SizeEstimate> {
        self.operand(index).map(|it| self.size(it))
    }

    /// The elements of a list.
    pub fn element(&self, list: &Operand<'e>) -> Option<Operand<'e>> {
        let Type::List(element) = list.of_type else { return None };
        let mut path = list.path.clone();
        if !path.is_empty() {
            path.push("@items".into());
        }
        Some(Operand { path, of_type: element, literal: None, computed: None })
    }
}

pub(crate) fn estimate(checked: &Checked, sizer: &dyn Sizer) -> CostEstimate {
    let mut coster = Coster {
        checked,
        sizer,
        paths: HashMap::new(),
        sizes: HashMap::new(),
        entries: HashMap::new(),
        locals: Vec::new(),
    };
    coster.cost(&checked.root)
}

/// Sizes of the keys (or indices) and values of a container.
#[derive(Debug, Clone, Copy)]
struct EntrySize {
    is_list: bool,
    key: SizeEstimate,
    value: SizeEstimate,
}

impl EntrySize {
    fn union(self, other: Self) -> Self {
        Self { key: self.key.union(other.key), value: self.value.union(other.value), ..self }
    }
}

/// A variable of a fold or binding.
#[derive(Debug, Clone)]
struct Local {
    name: Arc<str>,
    path: Vec<Arc<str>>,
    size: Option<SizeEstimate>,
    entry: Option<EntrySize>,
}

struct Coster<'c> {
    checked: &'c Checked,
    sizer: &'c dyn Sizer,
    paths: HashMap<ExprId, Vec<Arc<str>>>,
    sizes: HashMap<ExprId, SizeEstimate>,
    entries: HashMap<ExprId, EntrySize>,
    locals: Vec<Local>,
}

/// What an element of a container is called in a path.
fn sub_path(is_list: bool, is_key: bool) -> Arc<str> {
    match (is_list, is_key) {
        (true, true) => "@indices",
        (true, false) => "@items",
        (false, true) => "@keys",
        (false, false) => "@values",
    }
    .into()
}

impl<'c> Coster<'c> {
    fn cost(&mut self, expr: &'c Expr) -> CostEstimate {
        match &expr.kind {
            Kind::Literal(_) => CostEstimate::ZERO,
            Kind::Ident(name) => {
                let path =
                    self.local(name).map_or_else(|| vec![name.clone()], |it| it.path.clone());
                self.paths.insert(expr.id, path);
                CostEstimate::ONE
            }
            Kind::Select { operand, test: true, .. } => self.cost(operand),
            Kind::Select { operand, field, .. } => {
                let cost = self.cost(operand);
                let mut path = self.path(operand);
                path.push(field.clone());
                self.paths.insert(expr.id, path);
                match self.checked.type_of(operand.id) {
                    Type::Map(_) | Type::Object(_) => cost.add(CostEstimate::ONE),
                    _ => cost,
                }
            }
            Kind::Call { function, target, args } => {
                self.cost_call(expr, function, target.as_deref(), args)
            }
            Kind::List { elements, .. } => self.cost_list(expr.id, elements),
            Kind::Map(entries) => self.cost_map(expr.id, entries),
            Kind::Struct { fields, .. } => {
                let costs = fields.iter().map(|it| self.cost(&it.value));
                costs.fold(CostEstimate::fixed(STRUCT_CREATE), CostEstimate::add)
            }
            Kind::Comprehension(fold) if fold.is_binding() => self.cost_binding(expr.id, fold),
            Kind::Comprehension(fold) => self.cost_fold(expr.id, fold),
        }
    }

    fn local(&self, name: &str) -> Option<&Local> {
        self.locals.iter().rev().find(|it| &*it.name == name)
    }

    fn path(&self, expr: &Expr) -> Vec<Arc<str>> {
        if let Kind::Ident(name) = &expr.kind
            && let Some(local) = self.local(name)
        {
            return local.path.clone();
        }
        self.paths.get(&expr.id).cloned().unwrap_or_default()
    }

    fn size(&mut self, expr: &'c Expr) -> Option<SizeEstimate> {
        if let Some(size) = self.sizes.get(&expr.id) {
            return Some(*size);
        }
        if let Some(size) = literal_size(expr) {
            return Some(size);
        }
        let operand = self.operand_without_size(expr);
        if let Some(size) = self.sizer.size(&operand) {
            self.sizes.insert(expr.id, size);
            return Some(size);
        }
        if operand.of_type.is_scalar() {
            return Some(SizeEstimate::fixed(1));
        }
        match &expr.kind {
            Kind::Ident(name) => self.local(name).and_then(|it| it.size),
            _ => None,
        }
    }

    fn size_or_unknown(&mut self, expr: &'c Expr) -> SizeEstimate {
        self.size(expr).unwrap_or(SizeEstimate::UNKNOWN)
    }

    fn entry(&self, expr: &Expr) -> Option<EntrySize> {
        if let Some(entry) = self.entries.get(&expr.id) {
            return Some(*entry);
        }
        match &expr.kind {
            Kind::Ident(name) => self.local(name).and_then(|it| it.entry),
            _ => None,
        }
    }

    fn set_size(&mut self, id: ExprId, size: Option<SizeEstimate>) {
        if let Some(size) = size {
            self.sizes.insert(id, size);
        }
    }

    fn set_entry(&mut self, id: ExprId, entry: Option<EntrySize>) {
        if let Some(entry) = entry {
            self.entries.insert(id, entry);
        }
    }

    fn operand_without_size(&self, expr: &'c Expr) -> Operand<'c> {
        let literal = match &expr.kind {
            Kind::Literal(literal) => Some(literal),
            _ => None,
        };
        let of_type = self.checked.type_of(expr.id);
        Operand { path: self.path(expr), of_type, literal, computed: None }
    }

    fn operand(&mut self, expr: &'c Expr) -> Operand<'c> {
        let computed = self.size(expr);
        Operand { computed, ..self.operand_without_size(expr) }
    }

    fn cost_call(
        &mut self,
        expr: &'c Expr,
        function: &'c str,
        target: Option<&'c Expr>,
        args: &'c [Expr],
    ) -> CostEstimate {
        if let ("dyn", [arg]) = (function, args) {
            let cost = self.cost(arg);
            let size = self.size(arg);
            self.set_size(expr.id, size);
            self.set_entry(expr.id, self.entry(arg));
            return cost.add(CostEstimate::ONE);
        }
        let mut costs = Vec::new();
        let mut operands = Vec::new();
        for arg in args {
            costs.push(self.cost(arg));
            operands.push(self.operand(arg));
        }
        if function == "_?._" {
            return costs.iter().fold(CostEstimate::ONE, |sum, it| sum.add(*it));
        }
        let checked = self.checked;
        if checked.overloads(expr.id).is_empty() {
            return CostEstimate::ZERO;
        }
        let target_cost = target.map_or(CostEstimate::ZERO, |it| self.cost(it));
        let target = target.map(|it| self.operand(it));
        let mut total: Option<CostEstimate> = None;
        let mut size: Option<SizeEstimate> = None;
        for overload in checked.overloads(expr.id) {
            let shape = CallShape {
                function,
                overload: overload.id,
                target: target.as_ref(),
                args: &operands,
                sizer: self.sizer,
            };
            let call = match self.special(expr.id, overload.id, args, &costs) {
                Some(call) => call,
                None => {
                    let asked = self.sizer.call(&shape);
                    let own = || overload.estimate.and_then(|estimate| estimate(&shape));
                    let call = asked.or_else(own).unwrap_or(CallEstimate::of(CostEstimate::ONE));
                    let cost = costs.iter().fold(call.cost, |sum, it| sum.add(*it));
                    CallEstimate { cost, ..call }
                }
            };
            total = Some(total.map_or(call.cost, |it| it.union(call.cost)));
            if let Some(result) = call.result_size {
                size = Some(size.map_or(result, |it| it.union(result)));
            }
            if let Some(container) = args.first() {
                self.cost_index(expr.id, overload.id, container, &mut size);
            }
            if size.is_none() {
                size = self.size(expr);
            }
        }
        self.set_size(expr.id, size);
        target_cost.add(total.unwrap_or(CostEstimate::ZERO))
    }

    /// An index leads from a path to a path.
    fn cost_index(
        &mut self,
        id: ExprId,
        overload: &str,
        container: &Expr,
        size: &mut Option<SizeEstimate>,
    ) {
        let part = match overload {
            "index_list" => "@items",
            "index_map" => "@values",
            _ => return,
        };
        *size = self.entry(container).map(|it| it.value);
        let mut path = self.path(container);
        path.push(part.into());
        self.paths.insert(id, path);
    }

    /// Calls whose cost is not the sum of their arguments', or that carry sizes of elements on.
    fn special(
        &mut self,
        id: ExprId,
        overload: &str,
        args: &'c [Expr],
        costs: &[CostEstimate],
    ) -> Option<CallEstimate> {
        match (overload, args, costs) {
            ("logical_and" | "logical_or", _, [left, right]) => {
                let max = left.add(*right).max;
                Some(CallEstimate::of(CostEstimate::new(left.min, max)))
            }
            ("conditional", [_, then, otherwise], [condition, a, b]) => {
                let size = self.size_or_unknown(then).union(self.size_or_unknown(otherwise));
                let entries = self.entry(then).zip(self.entry(otherwise));
                self.set_entry(id, entries.map(|(a, b)| a.union(b)));
                Some(CallEstimate::sized(condition.add(a.union(*b)), size))
            }
            ("add_string" | "add_bytes" | "add_list", [left, right], [a, b]) => {
                let size = self.size_or_unknown(left).add(self.size_or_unknown(right));
                let entries = self.entry(left).zip(self.entry(right));
                self.set_entry(id, entries.map(|(a, b)| b.union(a)));
                let cost = match overload {
                    "add_list" => CostEstimate::ONE,
                    _ => size.scaled(STRING_TRAVERSAL),
                };
                Some(CallEstimate::sized(cost.add(*a).add(*b), size))
            }
            _ => None,
        }
    }

    fn cost_list(&mut self, id: ExprId, elements: &'c [Expr]) -> CostEstimate {
        let mut cost = CostEstimate::fixed(LIST_CREATE);
        let mut value: Option<SizeEstimate> = None;
        for element in elements {
            cost = cost.add(self.cost(element));
            let size = self.size_or_unknown(element);
            value = Some(value.map_or(size, |it| it.union(size)));
        }
        let value = value.unwrap_or(SizeEstimate::fixed(0));
        self.entries.insert(id, EntrySize { is_list: true, key: SizeEstimate::fixed(1), value });
        cost
    }

    fn cost_map(&mut self, id: ExprId, entries: &'c [Entry]) -> CostEstimate {
        let mut cost = CostEstimate::fixed(MAP_CREATE);
        let mut sizes: Option<EntrySize> = None;
        for entry in entries {
            cost = cost.add(self.cost(&entry.key)).add(self.cost(&entry.value));
            let (key, value) =
                (self.size_or_unknown(&entry.key), self.size_or_unknown(&entry.value));
            let size = EntrySize { is_list: false, key, value };
            sizes = Some(sizes.map_or(size, |it| it.union(size)));
        }
        let nothing = SizeEstimate::fixed(0);
        let empty = EntrySize { is_list: false, key: nothing, value: nothing };
        self.entries.insert(id, sizes.unwrap_or(empty));
        cost
    }

    fn cost_binding(&mut self, id: ExprId, fold: &'c Comprehension) -> CostEstimate {
        let cost = self.cost(&fold.range).add(self.cost(&fold.init));
        self.push_value(&fold.accumulator, &fold.init);
        let cost = cost.add(self.cost(&fold.result));
        let size = self.size(&fold.result);
        let entry = self.entry(&fold.result);
        self.locals.pop();
        self.set_size(id, size);
        self.set_entry(id, entry);
        cost
    }

    fn push_value(&mut self, name: &Arc<str>, value: &'c Expr) {
        let (path, entry) = (self.path(value), self.entry(value));
        let size = self.size(value);
        self.locals.push(Local { name: name.clone(), path, size, entry });
    }

    fn push_loop_variables(&mut self, fold: &'c Comprehension) {
        let entry = self.entry(&fold.range);
        let is_list = entry.map_or_else(
            || matches!(self.checked.type_of(fold.range.id), Type::List(_)),
            |it| it.is_list,
        );
        let path = self.path(&fold.range);
        let mut push = |name: &Arc<str>, is_key: bool| {
            let mut path = path.clone();
            path.push(sub_path(is_list, is_key));
            let size = entry.map(|it| if is_key { it.key } else { it.value });
            self.locals.push(Local { name: name.clone(), path, size, entry: None });
        };
        match &fold.variable2 {
            Some(second) => {
                push(&fold.variable, true);
                push(second, false);
            }
            None => push(&fold.variable, !is_list),
        }
    }

    fn cost_fold(&mut self, id: ExprId, fold: &'c Comprehension) -> CostEstimate {
        let mut cost = self.cost(&fold.range).add(self.cost(&fold.init));
        self.push_value(&fold.accumulator, &fold.init);
        let n_outside = self.locals.len();
        self.push_loop_variables(fold);
        let round = self.cost(&fold.condition).add(self.cost(&fold.step));
        self.locals.truncate(n_outside);
        cost = cost.add(self.cost(&fold.result));
        self.locals.pop();
        let n = self.size_or_unknown(&fold.range);
        match &fold.init.kind {
            Kind::Literal(_) => {
                let size = self.size(&fold.init);
                self.set_size(id, size);
            }
            Kind::List { .. } | Kind::Map(_) => {
                self.set_size(id, Some(n));
                self.set_entry(id, self.entry(&fold.step));
            }
            _ => {}
        }
        cost.add(n.times(round))
    }
}

fn literal_size(expr: &Expr) -> Option<SizeEstimate> {
    let size = match &expr.kind {
        Kind::Literal(Literal::String(text)) => text.chars().count(),
        Kind::Literal(Literal::Bytes(bytes)) => bytes.len(),
        Kind::Literal(_) => 1,
        Kind::List { elements, .. } => elements.len(),
        Kind::Map(entries) => entries.len(),
        _ => return None,
    };
    Some(SizeEstimate::fixed(size as u64))
}
