//! How long evaluations take, ours and `kube-cel`'s in the same run: `cargo xtask bench extension`.

use std::hint::black_box;
use std::time::Instant;

use cel::{Bindings, Type, UNTYPED, from_json};
use cel_oracles::values::kube_from;
use kube_cel::KubeCelExt as _;
use kube_cel::cel as other;
use serde_json::{Value, json};

/// The quickest batch counts: what else the machine does only makes one slower.
const BATCHES: usize = 200;
const ROUNDS: usize = 200;
const RULES: &[&str] = &[
    "self.min <= self.max",
    "self.min > 0 && self.max < 10",
    "has(self.name) && self.name != ''",
    "self.name.startsWith('web') && self.name.matches('^[a-z0-9-]+$')",
    "self.name in ['a', 'b', 'web-server-1']",
    "self.items.all(x, x.v >= 0)",
    "self.items.exists(x, x.name == 'n49')",
    "self.items.filter(x, x.v > 25).map(x, x.name).size() == 24",
];

fn main() {
    let items: Vec<Value> = (0..50).map(|n| json!({"name": format!("n{n}"), "v": n})).collect();
    let json = json!({"min": 1, "max": 3, "name": "web-server-1", "items": items});
    let env = apimachinery::cel::environment().variable("self", Type::map(Type::String, Type::Dyn));
    let mut context = other::Context::default().with_all();
    context.add_variable_from_value("self", kube_from(&json));
    for rule in RULES {
        let program = env.compile(rule).expect("it compiles").program().expect("constants fold");
        let variables = Bindings::new().with("self", from_json(&json, &UNTYPED).expect("JSON"));
        let cost = program.evaluate(&variables, u64::MAX).cost;
        let ours = quickest(|| {
            black_box(program.evaluate(black_box(&variables), 10_000_000).cost);
        });
        let theirs = other::Program::compile(rule).expect("it compiles");
        let theirs = quickest(|| {
            let _ = black_box(theirs.execute(black_box(&context)));
        });
        let unit = ours / cost.max(1) as f64;
        let ratio = theirs / ours;
        println!(
            "{ours:>9.0} ns {cost:>6} units {unit:>6.1} ns/unit, kube-cel {theirs:>9.0} ns ({ratio:.1}x)  {rule}"
        );
    }
    println!("goals: a rule of two fields 200 ns, 15 ns per unit, 5x");
}

/// Nanoseconds of one.
fn quickest(mut run: impl FnMut()) -> f64 {
    let mut least = f64::MAX;
    for _ in 0..BATCHES {
        let started = Instant::now();
        (0..ROUNDS).for_each(|_| run());
        least = least.min(started.elapsed().as_nanos() as f64 / ROUNDS as f64);
    }
    least
}
