//! Laws that every planner keeps, for tests of controllers: planning is stable, and carrying out
//! plans comes to rest.

use std::fmt::Debug;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("planning the same state twice gave {first} and then {second}")]
    Unstable { first: String, second: String },
    #[error("after {rounds} rounds the plan is still {plan}")]
    Restless { rounds: usize, plan: String },
}

/// Plans and applies until there is nothing left to do, and returns the state reached.
pub fn converges<S, A: Debug + PartialEq>(
    plan: impl Fn(&S) -> Vec<A>,
    apply: impl Fn(&mut S, A),
    mut state: S,
    rounds: usize,
) -> Result<S, Error> {
    for _ in 0..rounds {
        let (first, second) = (plan(&state), plan(&state));
        if first != second {
            let (first, second) = (format!("{first:?}"), format!("{second:?}"));
            return Err(Error::Unstable { first, second });
        }
        if first.is_empty() {
            return Ok(state);
        }
        first.into_iter().for_each(|it| apply(&mut state, it));
    }
    let plan = plan(&state);
    if plan.is_empty() {
        Ok(state)
    } else {
        Err(Error::Restless { rounds, plan: format!("{plan:?}") })
    }
}

#[cfg(test)]
mod tests {
    use super::{Error, converges};

    #[test]
    fn a_planner_that_steps_toward_its_goal_comes_to_rest() {
        let plan = |it: &i32| if *it < 3 { vec![1] } else { vec![] };
        assert_eq!(converges(plan, |it, by| *it += by, 0, 3).unwrap(), 3);
        let stopped = converges(plan, |it, by| *it += by, 0, 2);
        assert!(matches!(stopped, Err(Error::Restless { rounds: 2, .. })));
    }
}
