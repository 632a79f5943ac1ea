//! Flag in, gates or upstream's words out.

use super::{API_RESPONSE_COMPRESSION, Gates, SWITCHES, find, table};

fn check(flag: &str, expected: &str) {
    let outcome = match Gates::parse(flag) {
        Ok(gates) => {
            let set = gates.set.iter().map(|(name, value)| format!("{name}={value}"));
            set.collect::<Vec<_>>().join(",")
        }
        Err(err) => err.to_string(),
    };
    assert_eq!(outcome, expected, "{flag}");
}

#[test]
fn what_is_as_it_is_anyway_can_be_asked_for() {
    check("", "");
    check("APIResponseCompression=true", "APIResponseCompression=true");
    check(" AllAlpha = false , WatchList=T", "WatchList=true");
    check(
        "AnyVolumeDataSource=1,CBORServingAndStorage=0,",
        "AnyVolumeDataSource=true,CBORServingAndStorage=false",
    );
}

#[test]
fn wrong_flags_are_refused_in_upstream_s_words() {
    check("WatchList", "missing bool value for WatchList");
    check(
        "WatchList=yes",
        "invalid value of WatchList=yes, err: strconv.ParseBool: parsing \"yes\": invalid syntax",
    );
    check("Zebra=true", "unrecognized feature gate: Zebra");
    check("WacthList=true", "unrecognized feature gate: WacthList (did you mean WatchList?)");
    check(
        "AnyVolumeDataSource=false",
        "cannot set feature gate AnyVolumeDataSource to false, feature is locked to true",
    );
}

#[test]
fn what_cannot_be_switched_here_is_refused() {
    check(
        "CBORServingAndStorage=true",
        "cannot set feature gate CBORServingAndStorage to true: xebec does not have this feature",
    );
    check(
        "APIServerIdentity=false",
        "cannot set feature gate APIServerIdentity to false: xebec has no way without this feature",
    );
    let all = Gates::parse("AllBeta=false").unwrap_err().to_string();
    assert!(
        all.starts_with("cannot set AllBeta to false: xebec can change only a few gates"),
        "{all}"
    );
    assert!(all.ends_with(" more"), "{all}");
}

#[test]
fn later_flags_count() {
    let gates = |text| Gates::parse(text).unwrap();
    assert!(gates("").is_enabled(API_RESPONSE_COMPRESSION));
    let flags = [gates("APIResponseCompression=true"), gates("APIResponseCompression=false")];
    assert!(!Gates::merge(flags).is_enabled(API_RESPONSE_COMPRESSION));
}

#[test]
fn gates_that_will_go_are_named() {
    let gates = Gates::parse("WatchList=true,AnyVolumeDataSource=true").unwrap();
    let names: Vec<_> = gates.leaving().map(|(gate, _)| gate.name).collect();
    assert_eq!(names, ["AnyVolumeDataSource"]);
}

#[test]
fn the_table_is_in_order_and_has_every_switch() {
    assert_eq!(table::ALL.len(), 236);
    assert!(table::ALL.is_sorted_by(|a, b| a.name < b.name));
    for switch in SWITCHES {
        assert!(find(switch.0).is_some_and(|it| !it.is_locked), "{switch:?}");
    }
}
