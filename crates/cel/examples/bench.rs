//! `cargo run --release -p cel --example bench`: how long evaluations take, by evaluation and by unit
//! of cost. With a text after `--` only rules that have it.
#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
#![expect(clippy::print_stdout, reason = "its result is what it prints")]

use std::time::Instant;

use cel::{Bindings, Env, Type, UNTYPED, from_json};

const ROUNDS: u32 = 200_000;
/// The quickest batch counts: what else the machine does only makes one slower.
const BATCHES: u32 = 200;

fn main() {
    let items: Vec<_> =
        (0..50).map(|n| serde_json::json!({"name": format!("n{n}"), "v": n})).collect();
    let json = serde_json::json!({"min": 1, "max": 3, "name": "web-server-1", "items": items});
    let item = Type::map(Type::String, Type::Dyn);
    let env = Env::extended()
        .variable("self", Type::map(Type::String, Type::Dyn))
        .variable("items", Type::list(item))
        .variable("name", Type::String);
    let rules = [
        "self.min <= self.max",
        "self.min > 0 && self.max < 10",
        "has(self.name) && self.name != ''",
        "name.startsWith('web') && name.matches('^[a-z0-9-]+$')",
        "name in ['a', 'b', 'web-server-1']",
        "items.all(x, x.v >= 0)",
        "items.exists(x, x.name == 'n49')",
        "items.map(x, x.v).size() == 50",
        "items.filter(x, x.v > 25).map(x, x.name).join(',') != ''",
        "items.all(x, items.exists_one(y, y.name == x.name))",
    ];
    let wanted = std::env::args().nth(1).unwrap_or_default();
    for rule in rules.into_iter().filter(|it| it.contains(&wanted)) {
        let program = env.compile(rule).expect("it compiles").program().expect("constants fold");
        let variables = Bindings::new()
            .with("self", from_json(&json, &UNTYPED).expect("JSON"))
            .with("items", from_json(&json["items"], &UNTYPED).expect("JSON"))
            .with("name", from_json(&json["name"], &UNTYPED).expect("JSON"));
        let cost = program.evaluate(&variables, u64::MAX).cost;
        let rounds = (ROUNDS / u32::try_from(1 + cost / 10).unwrap_or(1)).max(BATCHES) / BATCHES;
        let mut least = u128::MAX;
        for _ in 0..BATCHES {
            let start = Instant::now();
            for _ in 0..rounds {
                let variables = std::hint::black_box(&variables);
                std::hint::black_box(program.evaluate(variables, 10_000_000).cost);
            }
            least = least.min(start.elapsed().as_nanos() / u128::from(rounds));
        }
        let unit = least / u128::from(cost.max(1));
        println!("{least:>9} ns {cost:>7} units {unit:>5} ns/unit  {rule}");
    }
}
