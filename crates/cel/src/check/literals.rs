//! What can be told about literals before anything is evaluated: durations, timestamps and patterns
//! that are no such, literals with elements of different types, and formats that do not fit.

use super::Checked;
use crate::library;
use crate::syntax::{Expr, Kind, Literal, Position, Report};
use crate::types::Type;
use crate::value::{Duration, Timestamp};

pub(super) fn check(checked: &Checked, positions: &[Position], report: &mut Report) {
    let strictness = checked.env.get_strictness();
    let literals = Literals { checked, positions, report };
    literals.run(strictness.checked_literals, strictness.homogeneous_literals);
}

struct Literals<'c> {
    checked: &'c Checked,
    positions: &'c [Position],
    report: &'c mut Report,
}

impl Literals<'_> {
    fn run(mut self, checks_literals: bool, checks_elements: bool) {
        let checked = self.checked;
        if checks_literals {
            checked.root.walk(&mut |expr| self.check_call(expr));
        }
        if checks_elements {
            self.check_elements(&checked.root);
        }
    }

    fn wrong(&mut self, expr: &Expr, what: String) {
        self.report.add(self.positions[expr.id], what);
    }

    fn check_call(&mut self, expr: &Expr) {
        let Kind::Call { function, target, args } = &expr.kind else { return };
        if &**function == "format" {
            return self.check_format(expr, target.as_deref(), args);
        }
        let Some(first) = args.first() else { return };
        let Kind::Literal(Literal::String(text)) = &first.kind else { return };
        let is_valid = match &**function {
            "duration" => Duration::parse(text).is_some(),
            "timestamp" => Timestamp::parse(text).is_some(),
            "matches" => target.is_none() || library::pattern(text).is_ok(),
            _ => return,
        };
        if !is_valid {
            self.wrong(first, format!("invalid {function} argument"));
        }
    }

    fn check_format(&mut self, expr: &Expr, target: Option<&Expr>, args: &[Expr]) {
        let Some(Kind::Literal(Literal::String(format))) = target.map(|it| &it.kind) else {
            return;
        };
        let [Expr { kind: Kind::List { elements, .. }, .. }] = args else { return };
        let types: Vec<&Type> = elements.iter().map(|it| self.checked.type_of(it.id)).collect();
        if let Err((index, what)) = library::check_format(format, &types) {
            let at = index.and_then(|index| elements.get(index)).unwrap_or(expr);
            self.wrong(at, what);
        }
    }

    /// Elements of one literal must be of one type, except inside `format`.
    fn check_elements(&mut self, expr: &Expr) {
        let type_of = |it: &Expr, is_optional: bool| {
            let it = self.checked.type_of(it.id);
            let inner = it.unwrap_optional().0;
            if is_optional { inner.clone() } else { it.clone() }
        };
        match &expr.kind {
            Kind::Call { function, .. } if &**function == "format" => return,
            Kind::List { elements, optional } => {
                let types = elements.iter().enumerate();
                let types: Vec<_> =
                    types.map(|(index, it)| (it, type_of(it, optional.contains(&index)))).collect();
                self.check_same(&types, 1);
            }
            Kind::Map(entries) => {
                let keys: Vec<_> =
                    entries.iter().map(|it| (&it.key, type_of(&it.key, false))).collect();
                let values: Vec<_> =
                    entries.iter().map(|it| (&it.value, type_of(&it.value, it.optional))).collect();
                self.check_same(&keys, usize::MAX);
                self.check_same(&values, usize::MAX);
            }
            _ => {}
        }
        expr.for_each_child(&mut |child| self.check_elements(child));
    }

    /// Of a list the first that differs is told, of a map all.
    fn check_same(&mut self, types: &[(&Expr, Type)], n_told: usize) {
        let Some((_, expected)) = types.first() else { return };
        let others = types.iter().filter(|(_, it)| !expected.is_equivalent(it)).take(n_told);
        for (expr, found) in others {
            self.wrong(expr, format!("expected type '{expected}' but found '{found}'"));
        }
    }
}
