//! Text in; number of indexes, or the problem out.

use super::super::indexes::{count, overlap};

#[test]
fn indexes_grow_and_stay_below_the_completions() {
    let check = |text: &str, expected: Result<i32, &str>| {
        let found = count(text, 10).map_err(|it| it.to_string());
        assert_eq!(found, expected.map_err(str::to_owned), "{text:?}");
    };
    check("", Ok(0));
    check("0", Ok(1));
    check("0,2-4,9", Ok(5));
    check("0-9", Ok(10));
    check("10", Err("too large index: \"10\""));
    check("1-10", Err("too large index: \"10\""));
    check("2,1", Err("non-increasing order, previous: 2, current: 1"));
    check("1-3,3", Err("non-increasing order, previous: 3, current: 3"));
    check("3-3", Err("non-increasing order, previous: 3, current: 3"));
    check("a", Err("cannot convert string to integer for index: \"a\""));
    check("1,", Err("cannot convert string to integer for index: \"\""));
    check("-1", Err("cannot convert string to integer for index: \"\""));
    check(
        "99999999999999999999",
        Err("cannot convert string to integer for index: \"99999999999999999999\""),
    );
    check(
        "1-2-3",
        Err(
            "the fragment \"1-2-3\" violates the requirement that an index interval can have at most two parts separated by '-'",
        ),
    );
}

#[test]
fn the_first_index_of_both_is_found() {
    let check = |one: &str, other: &str, expected: Option<i32>| {
        assert_eq!(overlap(one, other, 100), expected, "{one:?} {other:?}");
        assert_eq!(overlap(other, one, 100), expected, "{other:?} {one:?}");
    };
    check("", "1", None);
    check("1,3,5", "2,4,6", None);
    check("1-5", "5-7", Some(5));
    check("1,3,9", "4-20", Some(9));
    check("0-50", "7", Some(7));
    check("x,3", "3", Some(3));
    check("x", "x", None);
}
