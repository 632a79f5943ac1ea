//! The type checker. One pass over the tree, which knows more about type variables with every node.

use std::sync::Arc;

use super::{Checked, Reference, literals};
use crate::env::{Declared, Env};
use crate::syntax::{
    Comprehension, Entry, Expr, ExprId, Field, Issues, Kind, Literal, Parsed, Position, Report,
};
use crate::types::{Mapping, Type, most_general};
use crate::value::{Text, Value};

pub(crate) fn check(parsed: Parsed, env: &Env) -> Result<Checked, Issues> {
    let Parsed { source, mut root, positions } = parsed;
    let mut checker = Checker {
        env,
        types: vec![None; positions.len()],
        references: vec![None; positions.len()],
        positions,
        mapping: Mapping::default(),
        locals: Vec::new(),
        report: Report::default(),
    };
    checker.check(&mut root);
    let Checker { types, references, mapping, mut report, positions, .. } = checker;
    let resolve = |it: Option<Type>| it.map_or(Type::Dyn, |it| mapping.substitute(&it, true));
    let types = types.into_iter().map(resolve).collect();
    let checked =
        Checked { text: source.text().clone(), root, types, references, env: env.clone() };
    if report.is_empty() {
        literals::check(&checked, &positions, &mut report);
    }
    if report.is_empty() { Ok(checked) } else { Err(report.into_issues(source)) }
}

struct Checker<'e> {
    env: &'e Env,
    positions: Vec<Position>,
    types: Vec<Option<Type>>,
    references: Vec<Option<Reference>>,
    mapping: Mapping,
    /// Variables of folds around the node.
    locals: Vec<(Arc<str>, Type)>,
    report: Report,
}

/// What a name stands for.
struct Found {
    name: Arc<str>,
    declared: Type,
    constant: Option<Value<'static>>,
}

impl Checker<'_> {
    fn wrong(&mut self, id: ExprId, what: String) {
        self.report.add(self.positions[id], what);
    }

    fn set(&mut self, id: ExprId, it: Type) {
        self.types[id] = Some(it);
    }

    fn get(&self, id: ExprId) -> Type {
        self.types[id].clone().unwrap_or(Type::Error)
    }

    fn undeclared(&mut self, id: ExprId, name: &str) {
        let container = self.env.container_name();
        self.wrong(id, format!("undeclared reference to '{name}' (in container '{container}')"));
        self.set(id, Type::Error);
    }

    fn mismatch(&mut self, id: ExprId, expected: &Type, found: &Type) {
        self.wrong(id, format!("expected type '{expected}' but found '{found}'"));
    }

    fn check(&mut self, expr: &mut Expr) {
        let id = expr.id;
        match &mut expr.kind {
            Kind::Literal(literal) => {
                let it = literal_type(literal);
                self.set(id, it);
            }
            Kind::Ident(_) | Kind::Select { .. } => self.check_name(expr),
            Kind::Call { .. } => self.check_call(expr),
            Kind::List { elements, optional } => {
                let mut joined = None;
                for (index, element) in elements.iter_mut().enumerate() {
                    self.check(element);
                    let it = self.get(element.id);
                    let it = self.unwrapped(element.id, it, optional.contains(&index));
                    joined = Some(self.join(joined, it));
                }
                let element = joined.unwrap_or_else(|| self.mapping.fresh());
                self.set(id, Type::list(element));
            }
            Kind::Map(entries) => self.check_map(id, entries),
            Kind::Struct { name, fields } => self.check_struct(id, name, fields),
            Kind::Comprehension(fold) => self.check_fold(id, fold),
        }
    }

    /// The type of an optional element or entry, without the optional.
    fn unwrapped(&mut self, id: ExprId, it: Type, is_optional: bool) -> Type {
        if !is_optional {
            return it;
        }
        let (inner, was_optional) = it.unwrap_optional();
        if !was_optional && !inner.is_dyn_or_error() {
            self.mismatch(id, &Type::optional(inner.clone()), &it);
        }
        inner.clone()
    }

    /// The type of elements of both types. Whether they may differ is for `literals` to say.
    fn join(&mut self, previous: Option<Type>, current: Type) -> Type {
        let Some(previous) = previous else { return current };
        if self.mapping.assign(&previous, &current) {
            return most_general(&previous, &current).clone();
        }
        Type::Dyn
    }

    fn find(&self, name: &str) -> Option<Found> {
        if let Some((name, it)) = self.locals.iter().rev().find(|(known, _)| **known == *name) {
            return Some(Found { name: name.clone(), declared: it.clone(), constant: None });
        }
        self.env.candidates(name).into_iter().find_map(|name| {
            if let Some(declared) = self.env.find_variable(&name) {
                let declared = declared.clone();
                return Some(Found { name: name.into(), declared, constant: None });
            }
            let named = self.env.find_type(&name)?;
            let text = Text::Shared(named.runtime_name().into());
            Some(Found {
                name: name.into(),
                declared: Type::type_of(named),
                constant: Some(Value::Type(text)),
            })
        })
    }

    /// An identifier, a qualified name, or the field of something.
    fn check_name(&mut self, expr: &mut Expr) {
        let id = expr.id;
        let qualified = expr.qualified_name();
        if let Some(found) = qualified.as_deref().and_then(|name| self.find(name)) {
            self.set(id, found.declared);
            self.references[id] = Some(Reference::Name { constant: found.constant });
            expr.kind = Kind::Ident(found.name);
            return;
        }
        match &mut expr.kind {
            Kind::Select { operand, field, test } => {
                let (field, is_test) = (field.clone(), *test);
                let it = self.check_field(id, operand, &field, false);
                self.set(id, if is_test { Type::Bool } else { it });
            }
            Kind::Ident(name) => {
                let name = name.clone();
                self.undeclared(id, &name);
            }
            _ => {}
        }
    }

    fn check_field(
        &mut self,
        id: ExprId,
        operand: &mut Expr,
        field: &str,
        is_optional: bool,
    ) -> Type {
        self.check(operand);
        let operand = self.mapping.substitute(&self.get(operand.id), false);
        let (target, was_optional) = operand.unwrap_optional();
        let it = match target {
            Type::Map(pair) => pair.1.clone(),
            Type::Object(name) => self.field_type(id, name, field),
            Type::Variable(_) => {
                self.mapping.assign(&Type::Dyn, target);
                Type::Dyn
            }
            other => {
                if !other.is_dyn_or_error() {
                    self.wrong(id, format!("type '{other}' does not support field selection"));
                }
                Type::Dyn
            }
        };
        let it = self.mapping.substitute(&it, false);
        if was_optional || is_optional { Type::optional(it) } else { it }
    }

    fn field_type(&mut self, id: ExprId, object: &str, field: &str) -> Type {
        self.env.get_provider().find_field(object, field).unwrap_or_else(|| {
            self.wrong(id, format!("undefined field '{field}'"));
            Type::Error
        })
    }

    fn check_call(&mut self, expr: &mut Expr) {
        let id = expr.id;
        let Kind::Call { function, target, args } = &mut expr.kind else { return };
        if &**function == "_?._" {
            return self.check_optional_select(id, args);
        }
        for arg in args.iter_mut() {
            self.check(arg);
        }
        let Some(receiver) = target else {
            let Some((name, declared)) = self.env.find_function(function) else {
                let name = function.clone();
                return self.undeclared(id, &name);
            };
            *function = name.clone();
            let args = args.iter().map(|it| it.id).collect::<Vec<_>>();
            return self.resolve(id, &name.clone(), declared, &args, false);
        };
        // `a.b(c)` may be the function `a.b`.
        let qualified = receiver.qualified_name().map(|prefix| format!("{prefix}.{function}"));
        let namespaced = qualified.and_then(|name| self.env.find_function(&name));
        if let Some((name, declared)) = namespaced {
            *function = name.clone();
            *target = None;
            let args = args.iter().map(|it| it.id).collect::<Vec<_>>();
            return self.resolve(id, &name.clone(), declared, &args, false);
        }
        self.check(receiver);
        let ids: Vec<ExprId> =
            std::iter::once(receiver.id).chain(args.iter().map(|it| it.id)).collect();
        let name = function.clone();
        match self.env.find_function(&name) {
            Some((_, declared)) => self.resolve(id, &name, declared, &ids, true),
            None => self.undeclared(id, &name),
        }
    }

    fn check_optional_select(&mut self, id: ExprId, args: &mut [Expr]) {
        let [operand, field] = args else { return self.set(id, Type::Error) };
        let Kind::Literal(Literal::String(name)) = &field.kind else {
            return self.set(id, Type::Error);
        };
        let name = name.clone();
        self.set(field.id, Type::String);
        let it = self.check_field(id, operand, &name, true);
        self.set(id, it);
        self.references[id] = Some(Reference::Function(Vec::new()));
    }

    /// Finds the overloads that fit the arguments.
    fn resolve(
        &mut self,
        id: ExprId,
        name: &str,
        declared: &Declared,
        args: &[ExprId],
        is_member: bool,
    ) {
        let types: Vec<Type> = args.iter().map(|it| self.get(*it)).collect();
        let mut found = Vec::new();
        let mut result: Option<Type> = None;
        for overload in declared.overloads.iter().filter(|it| it.is_member == is_member) {
            if matches!(name, "_&&_" | "_||_") {
                return self.resolve_logical(id, overload, args, &types);
            }
            let mut names = Vec::new();
            let params: Vec<Type> =
                overload.params.iter().map(|it| self.mapping.instantiate(it, &mut names)).collect();
            let returned = self.mapping.instantiate(&overload.result, &mut names);
            if !self.mapping.assign_all(&types, &params) {
                continue;
            }
            found.push(overload.clone());
            let returned = self.mapping.substitute(&returned, false);
            result = Some(match result {
                None => returned,
                Some(first) if first == Type::Dyn || first == returned => first,
                Some(_) => Type::Dyn,
            });
        }
        let Some(result) = result else {
            let types: Vec<Type> =
                types.iter().map(|it| self.mapping.substitute(it, true)).collect();
            let signature = signature(&types, is_member);
            let what = format!("found no matching overload for '{name}' applied to '{signature}'");
            self.wrong(id, what);
            return self.set(id, Type::Error);
        };
        self.set(id, result);
        self.references[id] = Some(Reference::Function(found));
    }

    fn resolve_logical(
        &mut self,
        id: ExprId,
        overload: &Arc<crate::env::Overload>,
        args: &[ExprId],
        types: &[Type],
    ) {
        for (arg, it) in args.iter().zip(types) {
            if !self.mapping.assign(it, &Type::Bool) {
                let it = self.mapping.substitute(it, true);
                self.mismatch(*arg, &Type::Bool, &it);
            }
        }
        self.set(id, Type::Bool);
        self.references[id] = Some(Reference::Function(vec![overload.clone()]));
    }

    fn check_map(&mut self, id: ExprId, entries: &mut [Entry]) {
        let (mut keys, mut values) = (None, None);
        for entry in entries {
            self.check(&mut entry.key);
            let it = self.get(entry.key.id);
            keys = Some(self.join(keys, it));
            self.check(&mut entry.value);
            let it = self.get(entry.value.id);
            let it = self.unwrapped(entry.value.id, it, entry.optional);
            values = Some(self.join(values, it));
        }
        let keys = keys.unwrap_or_else(|| self.mapping.fresh());
        let values = values.unwrap_or_else(|| self.mapping.fresh());
        self.set(id, Type::map(keys, values));
    }

    fn check_struct(&mut self, id: ExprId, name: &mut Arc<str>, fields: &mut [Field]) {
        let Some(found) = self.find(name) else {
            let name = name.clone();
            return self.undeclared(id, &name);
        };
        let it = match found.declared {
            Type::Type(Some(it)) => (*it).clone(),
            other => {
                self.wrong(id, format!("'{other}' is not a type"));
                Type::Error
            }
        };
        let object = match &it {
            Type::Object(object) => Some(object.clone()),
            Type::Error => None,
            other => {
                self.wrong(id, format!("'{other}' is not a message type"));
                None
            }
        };
        self.set(id, if object.is_some() { it } else { Type::Error });
        for field in fields {
            self.check(&mut field.value);
            let Some(object) = &object else { continue };
            *name = object.clone();
            let expected = self.field_type(field.id, object, &field.name);
            let it = self.get(field.value.id);
            let it = self.unwrapped(field.value.id, it, field.optional);
            if !self.mapping.assign(&expected, &it) {
                let it = self.mapping.substitute(&it, true);
                let what = format!(
                    "expected type of field '{}' is '{expected}' but provided type is '{it}'",
                    field.name
                );
                self.wrong(field.id, what);
            }
        }
    }

    fn check_fold(&mut self, id: ExprId, fold: &mut Comprehension) {
        self.check(&mut fold.range);
        self.check(&mut fold.init);
        let range = self.mapping.substitute(&self.get(fold.range.id), false);
        let accumulated = self.get(fold.init.id);
        let (first, second) = self.loop_types(fold, &range);
        let n_outside = self.locals.len();
        self.locals.push((fold.accumulator.clone(), accumulated.clone()));
        self.locals.push((fold.variable.clone(), first));
        if let Some(name) = &fold.variable2 {
            self.locals.push((name.clone(), second));
        }
        self.check(&mut fold.condition);
        self.assert(fold.condition.id, &Type::Bool);
        self.check(&mut fold.step);
        self.assert(fold.step.id, &accumulated);
        self.locals.truncate(n_outside + 1);
        self.check(&mut fold.result);
        self.locals.truncate(n_outside);
        let result = self.mapping.substitute(&self.get(fold.result.id), false);
        self.set(id, result);
    }

    /// The types of the variables of a fold over `range`.
    fn loop_types(&mut self, fold: &Comprehension, range: &Type) -> (Type, Type) {
        let has_two = fold.variable2.is_some();
        match range {
            Type::List(element) if has_two => (Type::Int, (**element).clone()),
            Type::List(element) => ((**element).clone(), Type::Error),
            Type::Map(pair) => (pair.0.clone(), pair.1.clone()),
            Type::Dyn | Type::Error | Type::Variable(_) => {
                self.mapping.assign(&Type::Dyn, range);
                (Type::Dyn, Type::Dyn)
            }
            other => {
                let what = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be list, \
                     map, or dynamic)"
                );
                self.wrong(fold.range.id, what);
                (Type::Error, Type::Error)
            }
        }
    }

    fn assert(&mut self, id: ExprId, expected: &Type) {
        let it = self.get(id);
        if !self.mapping.assign(expected, &it) {
            let expected = self.mapping.substitute(expected, false);
            let it = self.mapping.substitute(&it, false);
            self.mismatch(id, &expected, &it);
        }
    }
}

fn literal_type(literal: &Literal) -> Type {
    match literal {
        Literal::Null => Type::Null,
        Literal::Bool(_) => Type::Bool,
        Literal::Int(_) => Type::Int,
        Literal::Uint(_) => Type::Uint,
        Literal::Double(_) => Type::Double,
        Literal::String(_) => Type::String,
        Literal::Bytes(_) => Type::Bytes,
    }
}

/// `(int, string)`, or `string.(int)` for a member.
fn signature(types: &[Type], is_member: bool) -> String {
    let (target, args) = match types {
        [target, args @ ..] if is_member => (format!("{target}."), args),
        args => (String::new(), args),
    };
    let args: Vec<String> = args.iter().map(Type::to_string).collect();
    format!("{target}({})", args.join(", "))
}
