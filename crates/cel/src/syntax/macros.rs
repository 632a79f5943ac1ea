//! Macros: calls that the parser replaces by other expressions. What they expand to decides what an
//! expression costs, so the forms are cel-go's.

use std::sync::Arc;

use super::ast::{Comprehension, Entry, Expr, Field, Kind, Literal};
use super::parser::{Builder, NODES_MAX};
use super::source::Position;

/// The accumulator of folds: no identifier of the language.
pub(crate) const ACCUMULATOR: &str = "@result";
/// What cel-go calls its accumulator; nobody may shadow it.
const ACCUMULATOR_OF_OLD: &str = "__result__";
/// The loop variable of bindings, which have no loop.
const UNUSED: &str = "#unused";
const SORT_INPUT: &str = "@__sortBy_input__";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    Global,
    Receiver,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    Has,
    All,
    Exists,
    ExistsOne,
    Map,
    Filter,
    OptMap,
    OptFlatMap,
    All2,
    Exists2,
    ExistsOne2,
    TransformList,
    TransformMap,
    TransformMapEntry,
    SortBy,
    /// Only of the namespace `cel`.
    Bind,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Macro {
    name: &'static str,
    n_args: usize,
    style: Style,
    what: What,
}

impl Macro {
    const fn receiver(name: &'static str, n_args: usize, what: What) -> Self {
        Self { name, n_args, style: Style::Receiver, what }
    }

    pub(crate) fn matches(&self, name: &str, n_args: usize, target: Option<&Expr>) -> bool {
        let style = if target.is_some() { Style::Receiver } else { Style::Global };
        let is_namespace = |it: &Expr| it.kind == Kind::Ident("cel".into());
        self.name == name
            && self.n_args == n_args
            && self.style == style
            && (self.what != What::Bind || target.is_some_and(is_namespace))
    }

    pub(crate) const STANDARD: &'static [Self] = &[
        Self { name: "has", n_args: 1, style: Style::Global, what: What::Has },
        Self::receiver("all", 2, What::All),
        Self::receiver("exists", 2, What::Exists),
        Self::receiver("exists_one", 2, What::ExistsOne),
        Self::receiver("existsOne", 2, What::ExistsOne),
        Self::receiver("map", 2, What::Map),
        Self::receiver("map", 3, What::Map),
        Self::receiver("filter", 2, What::Filter),
    ];
    pub(crate) const OPTIONAL: &'static [Self] = &[
        Self::receiver("optMap", 2, What::OptMap),
        Self::receiver("optFlatMap", 2, What::OptFlatMap),
    ];
    pub(crate) const TWO_VARIABLES: &'static [Self] = &[
        Self::receiver("all", 3, What::All2),
        Self::receiver("exists", 3, What::Exists2),
        Self::receiver("exists_one", 3, What::ExistsOne2),
        Self::receiver("existsOne", 3, What::ExistsOne2),
        Self::receiver("transformList", 3, What::TransformList),
        Self::receiver("transformList", 4, What::TransformList),
        Self::receiver("transformMap", 3, What::TransformMap),
        Self::receiver("transformMap", 4, What::TransformMap),
        Self::receiver("transformMapEntry", 3, What::TransformMapEntry),
        Self::receiver("transformMapEntry", 4, What::TransformMapEntry),
    ];
    pub(crate) const LISTS: &'static [Self] = &[Self::receiver("sortBy", 2, What::SortBy)];
    pub(crate) const BINDINGS: &'static [Self] = &[Self::receiver("bind", 3, What::Bind)];
}

type Expanded = Result<Expr, (Position, String)>;

pub(super) fn expand(
    found: Macro,
    build: &mut Builder,
    position: Position,
    target: Option<Expr>,
    args: Vec<Expr>,
) -> Expanded {
    let mut make = Make { build, position };
    let Some(target) = target else { return make.has(args) };
    match found.what {
        What::Has => make.has(args),
        What::OptMap => make.optional(target, args, true),
        What::OptFlatMap => make.optional(target, args, false),
        What::SortBy => make.sort_by(target, args),
        What::Bind => make.binding(&target, args),
        What::All | What::Exists | What::ExistsOne => make.quantifier(found.what, target, args, 1),
        What::All2 => make.quantifier(What::All, target, args, 2),
        What::Exists2 => make.quantifier(What::Exists, target, args, 2),
        What::ExistsOne2 => make.quantifier(What::ExistsOne, target, args, 2),
        What::Map => make.map(target, args),
        What::Filter => make.filter(target, args),
        What::TransformList | What::TransformMap | What::TransformMapEntry => {
            make.transform(found.what, target, args)
        }
    }
}

/// The variables of a fold.
struct Variables {
    first: Arc<str>,
    second: Option<Arc<str>>,
}

struct Make<'b> {
    build: &'b mut Builder,
    position: Position,
}

impl Make<'_> {
    fn node(&mut self, kind: Kind) -> Expr {
        self.build.node(self.position, kind)
    }

    fn literal(&mut self, value: Literal) -> Expr {
        self.node(Kind::Literal(value))
    }

    fn ident(&mut self, name: &str) -> Expr {
        self.node(Kind::Ident(name.into()))
    }

    fn accumulator(&mut self) -> Expr {
        self.ident(ACCUMULATOR)
    }

    fn call(&mut self, name: &str, args: Vec<Expr>) -> Expr {
        self.build.call(self.position, name, args)
    }

    fn member(&mut self, target: Expr, name: &str, args: Vec<Expr>) -> Expr {
        self.node(Kind::Call { function: name.into(), target: Some(target.into()), args })
    }

    fn list(&mut self, elements: Vec<Expr>) -> Expr {
        self.node(Kind::List { elements, optional: Vec::new() })
    }

    fn error<T>(&self, at: &Expr, what: impl Into<String>) -> Result<T, (Position, String)> {
        Err((self.build.position(at.id), what.into()))
    }

    fn has(&mut self, mut args: Vec<Expr>) -> Expanded {
        match args.pop() {
            Some(Expr { kind: Kind::Select { operand, field, test: false }, .. }) => {
                Ok(self.node(Kind::Select { operand, field, test: true }))
            }
            Some(other) => self.error(&other, "invalid argument to has() macro"),
            None => Err((self.position, "invalid argument to has() macro".to_owned())),
        }
    }

    /// Takes `n` variable names off the front of the arguments.
    fn variables(
        &self,
        args: &mut Vec<Expr>,
        n: usize,
        what: &str,
    ) -> Result<Variables, (Position, String)> {
        let mut names: Vec<Arc<str>> = Vec::new();
        for arg in args.drain(..n).collect::<Vec<_>>() {
            let Kind::Ident(name) = &arg.kind else { return self.error(&arg, what) };
            if &**name == ACCUMULATOR_OF_OLD {
                return self.error(&arg, "iteration variable overwrites accumulator variable");
            }
            if names.contains(name) {
                return self.error(&arg, format!("duplicate variable name: {name}"));
            }
            names.push(name.clone());
        }
        let second = if n > 1 { names.pop() } else { None };
        Ok(Variables { first: names.pop().unwrap_or_else(|| UNUSED.into()), second })
    }

    fn fold(
        &mut self,
        range: Expr,
        variables: Variables,
        [init, condition, step, result]: [Expr; 4],
    ) -> Expr {
        self.node(Kind::Comprehension(Box::new(Comprehension {
            range,
            variable: variables.first,
            variable2: variables.second,
            accumulator: ACCUMULATOR.into(),
            init,
            condition,
            step,
            result,
        })))
    }

    fn quantifier(&mut self, what: What, range: Expr, mut args: Vec<Expr>, n: usize) -> Expanded {
        let variables = self.variables(&mut args, n, "argument must be a simple name")?;
        let Some(predicate) = args.pop() else { return self.error(&range, "missing predicate") };
        let accumulator = self.accumulator();
        let parts = match what {
            What::All => {
                let init = self.literal(Literal::Bool(true));
                let condition = self.call("@not_strictly_false", vec![accumulator]);
                let accumulator = self.accumulator();
                let step = self.call("_&&_", vec![accumulator, predicate]);
                [init, condition, step, self.accumulator()]
            }
            What::Exists => {
                let init = self.literal(Literal::Bool(false));
                let not = self.call("!_", vec![accumulator]);
                let condition = self.call("@not_strictly_false", vec![not]);
                let accumulator = self.accumulator();
                let step = self.call("_||_", vec![accumulator, predicate]);
                [init, condition, step, self.accumulator()]
            }
            _ => {
                let init = self.literal(Literal::Int(0));
                let condition = self.literal(Literal::Bool(true));
                let one = self.literal(Literal::Int(1));
                let more = self.call("_+_", vec![accumulator, one]);
                let accumulator = self.accumulator();
                let step = self.call("_?_:_", vec![predicate, more, accumulator]);
                let one = self.literal(Literal::Int(1));
                let accumulator = self.accumulator();
                [init, condition, step, self.call("_==_", vec![accumulator, one])]
            }
        };
        Ok(self.fold(range, variables, parts))
    }

    /// A step that appends `element` to the accumulator, if `filter` holds.
    fn collect(
        &mut self,
        range: Expr,
        variables: Variables,
        element: Expr,
        filter: Option<Expr>,
    ) -> Expr {
        let init = self.list(Vec::new());
        let condition = self.literal(Literal::Bool(true));
        let accumulator = self.accumulator();
        let element = self.list(vec![element]);
        let step = self.call("_+_", vec![accumulator, element]);
        let step = self.filtered(step, filter);
        let result = self.accumulator();
        self.fold(range, variables, [init, condition, step, result])
    }

    fn filtered(&mut self, step: Expr, filter: Option<Expr>) -> Expr {
        let Some(filter) = filter else { return step };
        let accumulator = self.accumulator();
        self.call("_?_:_", vec![filter, step, accumulator])
    }

    fn map(&mut self, range: Expr, mut args: Vec<Expr>) -> Expanded {
        let variables = self.variables(&mut args, 1, "argument is not an identifier")?;
        let Some(element) = args.pop() else { return self.error(&range, "missing expression") };
        Ok(self.collect(range, variables, element, args.pop()))
    }

    fn filter(&mut self, range: Expr, mut args: Vec<Expr>) -> Expanded {
        let variables = self.variables(&mut args, 1, "argument is not an identifier")?;
        let element = self.ident(&variables.first.clone());
        Ok(self.collect(range, variables, element, args.pop()))
    }

    fn transform(&mut self, what: What, range: Expr, mut args: Vec<Expr>) -> Expanded {
        let variables = self.variables(&mut args, 2, "argument must be a simple name")?;
        let Some(element) = args.pop() else { return self.error(&range, "missing expression") };
        let filter = args.pop();
        if what == What::TransformList {
            return Ok(self.collect(range, variables, element, filter));
        }
        let init = self.node(Kind::Map(Vec::new()));
        let condition = self.literal(Literal::Bool(true));
        let accumulator = self.accumulator();
        let args = if what == What::TransformMap {
            vec![accumulator, self.ident(&variables.first.clone()), element]
        } else {
            vec![accumulator, element]
        };
        let step = self.call("cel.@mapInsert", args);
        let step = self.filtered(step, filter);
        let result = self.accumulator();
        Ok(self.fold(range, variables, [init, condition, step, result]))
    }

    /// `result` with `name` bound to `value`.
    fn bind(&mut self, name: &str, value: Expr, result: Expr) -> Expr {
        let range = self.list(Vec::new());
        let condition = self.literal(Literal::Bool(false));
        let step = self.ident(name);
        self.node(Kind::Comprehension(Box::new(Comprehension {
            range,
            variable: UNUSED.into(),
            variable2: None,
            accumulator: name.into(),
            init: value,
            condition,
            step,
            result,
        })))
    }

    /// `cel.bind(name, value, result)`
    fn binding(&mut self, target: &Expr, mut args: Vec<Expr>) -> Expanded {
        let what = "cel.bind() variable names must be simple identifiers";
        let name = self.variables(&mut args, 1, what)?.first;
        match (args.pop(), args.pop()) {
            (Some(result), Some(value)) => Ok(self.bind(&name, value, result)),
            _ => self.error(target, "missing expression"),
        }
    }

    fn optional(&mut self, target: Expr, mut args: Vec<Expr>, wraps: bool) -> Expanded {
        let macro_name = if wraps { "optMap" } else { "optFlatMap" };
        let what = format!("{macro_name}() variable name must be a simple identifier");
        let variables = self.variables(&mut args, 1, &what)?;
        let Some(body) = args.pop() else { return self.error(&target, "missing expression") };
        let mut n = self.build.n_nodes();
        target.walk(&mut |_| n += 1);
        if n > NODES_MAX {
            return self
                .error(&target, format!("expression size exceeds limit: {NODES_MAX} nodes"));
        }
        let again = self.copy(&target);
        let value = self.member(again, "value", Vec::new());
        let bound = self.bind(&variables.first, value, body);
        let some = if wraps { self.call("optional.of", vec![bound]) } else { bound };
        let condition = self.member(target, "hasValue", Vec::new());
        let none = self.call("optional.none", Vec::new());
        Ok(self.call("_?_:_", vec![condition, some, none]))
    }

    fn sort_by(&mut self, target: Expr, args: Vec<Expr>) -> Expanded {
        if matches!(target.kind, Kind::Literal(_) | Kind::Map(_) | Kind::Struct { .. }) {
            let what = "sortBy can only be applied to a list, identifier, comprehension, call or select \
                        expression";
            return self.error(&target, what);
        }
        let input = self.ident(SORT_INPUT);
        let keys = self.map(input, args)?;
        let input = self.ident(SORT_INPUT);
        let sorted = self.member(input, "@sortByAssociatedKeys", vec![keys]);
        Ok(self.bind(SORT_INPUT, target, sorted))
    }

    /// The same expression with nodes of its own.
    fn copy(&mut self, expr: &Expr) -> Expr {
        let position = self.build.position(expr.id);
        let kind = match &expr.kind {
            Kind::Literal(_) | Kind::Ident(_) => expr.kind.clone(),
            Kind::Select { operand, field, test } => Kind::Select {
                operand: self.copy(operand).into(),
                field: field.clone(),
                test: *test,
            },
            Kind::Call { function, target, args } => Kind::Call {
                function: function.clone(),
                target: target.as_ref().map(|it| self.copy(it).into()),
                args: args.iter().map(|it| self.copy(it)).collect(),
            },
            Kind::List { elements, optional } => Kind::List {
                elements: elements.iter().map(|it| self.copy(it)).collect(),
                optional: optional.clone(),
            },
            Kind::Map(entries) => Kind::Map(entries.iter().map(|it| self.copy_entry(it)).collect()),
            Kind::Struct { name, fields } => Kind::Struct {
                name: name.clone(),
                fields: fields.iter().map(|it| self.copy_field(it)).collect(),
            },
            Kind::Comprehension(fold) => Kind::Comprehension(Box::new(Comprehension {
                range: self.copy(&fold.range),
                variable: fold.variable.clone(),
                variable2: fold.variable2.clone(),
                accumulator: fold.accumulator.clone(),
                init: self.copy(&fold.init),
                condition: self.copy(&fold.condition),
                step: self.copy(&fold.step),
                result: self.copy(&fold.result),
            })),
        };
        self.build.node(position, kind)
    }

    fn copy_entry(&mut self, entry: &Entry) -> Entry {
        let (key, value) = (self.copy(&entry.key), self.copy(&entry.value));
        Entry { key, value, optional: entry.optional }
    }

    fn copy_field(&mut self, field: &Field) -> Field {
        let id = self.build.id(self.build.position(field.id));
        let value = self.copy(&field.value);
        Field { id, name: field.name.clone(), value, optional: field.optional }
    }
}
