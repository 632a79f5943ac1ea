//! Random expressions of known types: what is accepted is understood.

use super::typed::{Case, Generator};
use crate::{AnySize, Bindings, Checked, Env, Error, Type, UNTYPED, Value, from_json};

/// A moment's worth.
const CASES: u64 = 4_000;

fn env(generator: &Generator) -> Env {
    let variables = generator.variables().iter();
    variables.fold(Env::extended(), |env, (name, it)| env.variable(name, it.clone()))
}

fn bind<'a>(generator: &'a Generator, case: &'a Case) -> Bindings<'a> {
    let named = generator.variables().iter().zip(&case.values);
    named.fold(Bindings::new(), |all, ((name, _), json)| {
        all.with(name, from_json(json, &UNTYPED).expect("JSON without shape"))
    })
}

/// Whether a value is of a type, to the last element.
fn is_of(value: &Value<'_>, wanted: &Type) -> bool {
    match (value, wanted) {
        (_, Type::Dyn) => true,
        (Value::List(items), Type::List(inner)) => {
            items.iter().all(|it| it.is_ok_and(|it| is_of(&it, inner)))
        }
        (Value::Map(map), Type::Map(pair)) => map.keys().iter().all(|key| {
            is_of(&key.to_value(), &pair.0)
                && map.get(key).is_ok_and(|it| it.is_some_and(|it| is_of(&it, &pair.1)))
        }),
        (Value::Optional(inner), Type::Optional(wanted)) => {
            inner.as_ref().is_none_or(|it| is_of(it, wanted))
        }
        (value, wanted) => value.type_name() == wanted.runtime_name(),
    }
}

fn for_each_case(mut look: impl FnMut(&Generator, &Case, Result<Checked, String>)) {
    let generator = Generator::default();
    let env = env(&generator);
    for seed in 0..CASES {
        let case = generator.case(seed);
        let checked = env.compile(&case.text).map_err(|issues| issues.to_string());
        look(&generator, &case, checked);
    }
}

#[test]
fn what_is_well_typed_is_accepted_with_its_type() {
    let mut n_refused = 0;
    for_each_case(|_, case, checked| match checked {
        Ok(_) if case.is_wrong => {}
        Ok(checked) => assert_eq!(*checked.output_type(), case.of_type, "{}", case.text),
        Err(_) if case.is_wrong => n_refused += 1,
        Err(issues) => panic!("{}: {issues}", case.text),
    });
    assert!(n_refused > CASES / 20, "what is wrong is refused: {n_refused}");
}

#[test]
fn what_is_accepted_never_fails_for_its_types() {
    let mut n_values = 0;
    for_each_case(|generator, case, checked| {
        let Ok(checked) = checked else { return };
        let variables = bind(generator, case);
        let program = checked.program_unfolded().expect("nothing is computed yet");
        match program.evaluate(&variables, u64::MAX).result {
            Ok(value) => {
                n_values += 1;
                assert!(is_of(&value, checked.output_type()), "{}: {value}", case.text);
            }
            Err(err @ (Error::NoSuchOverload | Error::NoSuchOverloadFor(_))) => {
                // What went through `dyn` is found out only now.
                assert!(case.text.contains("dyn("), "{}: {err}", case.text);
            }
            Err(_) => {}
        }
    });
    assert!(n_values > CASES / 2, "most have a value: {n_values}");
}

#[test]
fn folded_constants_change_nothing_but_make_it_cheaper() {
    for_each_case(|generator, case, checked| {
        let Ok(checked) = checked else { return };
        let variables = bind(generator, case);
        let plain = checked.program_unfolded().expect("nothing is computed yet");
        let plain = plain.evaluate(&variables, u64::MAX);
        let Ok(folded) = checked.program() else {
            // A constant without a value. It may stand where nobody would have looked.
            return;
        };
        let folded = folded.evaluate(&variables, u64::MAX);
        let shown = |it: &Result<Value<'_>, Error>| match it {
            Ok(value) => value.to_string(),
            Err(_) => "error".to_owned(),
        };
        assert_eq!(shown(&folded.result), shown(&plain.result), "{}", case.text);
        assert!(folded.cost <= plain.cost, "{}: {} > {}", case.text, folded.cost, plain.cost);
        // Upstream's estimate misses the step into what is no path from a variable: `[1][0]`.
        let most = checked.estimate(&AnySize).max.saturating_mul(2);
        assert!(plain.cost <= most, "{}: {} is more than {most}", case.text, plain.cost);
    });
}

#[test]
fn any_seed_does_no_harm() {
    (0..500).map(|it| u64::MAX / 500 * it).for_each(super::typed_expression);
}
