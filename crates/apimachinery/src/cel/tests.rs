//! Values, errors and costs of the libraries. The costs are upstream's
//! (`apiserver/pkg/cel/library/cost_test.go`), which counts without folding constants.

use std::sync::Arc;

use cel::{Bindings, Operand, SizeEstimate, Sizer, Type};

use super::environment;
use super::libraries::authz::{self, Decision, Decisions, Resource, Subject, Target};

/// What an expression comes to: the value, or `error: …`.
fn evaluate(text: &str) -> String {
    let checked = environment().compile(text).unwrap_or_else(|err| panic!("{text}: {err}"));
    let program = checked.program_unfolded().unwrap_or_else(|err| panic!("{text}: {err}"));
    match program.evaluate(&Bindings::new(), u64::MAX).result {
        Ok(value) => value.to_string(),
        Err(err) => format!("error: {err}"),
    }
}

fn check(rows: &[(&str, &str)]) {
    for (text, expected) in rows {
        assert_eq!(evaluate(text), *expected, "{text}");
    }
}

fn check_true(rows: &[&str]) {
    for text in rows {
        assert_eq!(evaluate(text), "true", "{text}");
    }
}

/// What is not known is at most twelve characters long.
struct ShortTexts;

impl Sizer for ShortTexts {
    fn size(&self, operand: &Operand<'_>) -> Option<SizeEstimate> {
        matches!(operand.of_type, Type::String | Type::Bytes).then_some(SizeEstimate::new(0, 12))
    }
}

/// Estimated least and most, and at run time.
fn check_costs(rows: &[(&str, u64, u64, u64)]) {
    let decisions = Arc::new(Decisions::default());
    let env = environment().variable("authorizer", authz::authorizer_type());
    for (text, min, max, actual) in rows {
        let checked = env.compile(text).unwrap_or_else(|err| panic!("{text}: {err}"));
        let estimate = checked.estimate(&ShortTexts);
        assert_eq!((estimate.min, estimate.max), (*min, *max), "{text}: estimated");
        let program = checked.program_unfolded().unwrap();
        let variables = Bindings::new().with("authorizer", authz::authorizer(&decisions));
        let mut evaluated = program.evaluate(&variables, u64::MAX);
        for check in decisions.take_asked() {
            decisions.decide(check, Decision { is_allowed: true, ..Decision::default() });
            evaluated = program.evaluate(&variables, u64::MAX);
        }
        assert_eq!(evaluated.cost, *actual, "{text}: {:?}", evaluated.result);
    }
}

const INTS: &str = "[1, 2, 3, 4, 5]";
const UINTS: &str = "[uint(1), uint(2), uint(3), uint(4), uint(5)]";
const TEXTS: &str =
    "['012345678901', '012345678901', '012345678901', '012345678901', '012345678901']";
const BYTES: &str = "[bytes('012345678901'), bytes('012345678901'), bytes('012345678901'), \
                     bytes('012345678901'), bytes('012345678901')]";
const DURATIONS: &str =
    "[duration('1s'), duration('2s'), duration('3s'), duration('4s'), duration('5s')]";

#[test]
fn lists() {
    check(&[
        ("[1, 3, 2].max()", "3"),
        ("['b', 'a'].min()", "\"a\""),
        ("[1, 2].sum()", "3"),
        ("[1.5, 2.5].sum()", "4.0"),
        ("[1u, 2u].sum()", "3u"),
        ("[duration('1m'), duration('1s')].sum() == duration('61s')", "true"),
        ("['a', 'b', 'b'].indexOf('b')", "1"),
        ("['a', 'b', 'b'].lastIndexOf('b')", "2"),
        ("['a'].indexOf('x')", "-1"),
        ("'abcabc'.lastIndexOf('b')", "4"),
        ("[1, 2, 2].isSorted() && !['b', 'a'].isSorted()", "true"),
        ("[].max()", "error: max called on empty list"),
        ("[].min()", "error: min called on empty list"),
        ("[9223372036854775807, 1].sum()", "error: integer overflow"),
    ]);
}

#[test]
fn costs_of_lists() {
    let of = |list: &str, call: &str, min, max, actual| {
        check_costs(&[(&format!("{list}{call}"), min, max, actual)]);
    };
    for call in [".sum()", ".isSorted()", ".max()", ".min()"] {
        of(INTS, call, 15, 15, 15);
        of(UINTS, call, 20, 20, 20);
        of(DURATIONS, call, 20, 20, 20);
    }
    for call in [".isSorted()", ".max()", ".min()"] {
        of(TEXTS, call, 15, 25, 15);
        of(BYTES, call, 25, 35, 25);
    }
    for name in ["indexOf", "lastIndexOf"] {
        of(INTS, &format!(".{name}(3)"), 15, 15, 15);
        of(UINTS, &format!(".{name}(uint(3))"), 21, 21, 21);
        of(TEXTS, &format!(".{name}('x')"), 15, 25, 15);
        of(BYTES, &format!(".{name}(bytes('x'))"), 26, 36, 26);
        of(DURATIONS, &format!(".{name}(duration('3s'))"), 21, 21, 21);
        let text = "'01234567890123456789012345678901234567890123456789'";
        of(text, &format!(".{name}('123')"), 5, 5, 5);
    }
}

#[test]
fn patterns() {
    check(&[
        ("'abc 123 def 456'.find('[0-9]+')", "\"123\""),
        ("'abc'.find('[0-9]+')", "\"\""),
        ("'abc 123 def 456'.findAll('[0-9]+')", "[\"123\", \"456\"]"),
        ("'123 abc 456'.findAll('[0-9]+', 1)", "[\"123\"]"),
        ("'123'.findAll('[0-9]', 0)", "[]"),
        ("'123'.findAll('[0-9]', -1)", "[\"1\", \"2\", \"3\"]"),
    ]);
    assert!(evaluate("'a'.find('a' + '(')").starts_with("error: Illegal regex: "));
    check_costs(&[
        ("'abc 123 def 123'.find('123')", 2, 2, 2),
        ("'abc 123 def 123'.findAll('123')", 2, 2, 2),
        ("'abc 123 def 123'.findAll('123', 1)", 2, 2, 2),
    ]);
}

#[test]
fn urls() {
    let url = "url('https://user:pw@example.com:80/a%20b/c?k=v1&k=v2&x=a+b#frag')";
    let of = |call: &str| evaluate(&format!("{url}.{call}()"));
    assert_eq!(of("getScheme"), "\"https\"");
    assert_eq!(of("getHost"), "\"example.com:80\"");
    assert_eq!(of("getHostname"), "\"example.com\"");
    assert_eq!(of("getPort"), "\"80\"");
    assert_eq!(of("getEscapedPath"), "\"/a%20b/c\"");
    assert_eq!(of("getQuery"), r#"{"k": ["v1", "v2"], "x": ["a b"]}"#);
    check(&[
        ("url('/path').getScheme()", "\"\""),
        ("url('https://[::1]:80/').getHostname()", "\"::1\""),
        ("url('https://[::1]:80/').getHost()", "\"[::1]:80\""),
        ("url('https://example.com/with space/').getEscapedPath()", "\"/with%20space/\""),
        ("isURL('https://a') && isURL('/x') && !isURL('../x') && !isURL('https://a:b')", "true"),
        ("url('https://a/b') == url('https://a/b')", "true"),
        ("url('https://a/b') == url('https://a/c')", "false"),
    ]);
    check_costs(&[
        ("url('https:://kubernetes.io/').getScheme()", 4, 4, 4),
        ("url('https:://kubernetes.io/').getQuery()", 4, 4, 4),
        ("url('https:://kubernetes.io/') == url('https:://kubernetes.io/')", 7, 9, 7),
        ("url('https:://kubernetes.io/') == url('http://x.b')", 5, 5, 5),
    ]);
}

#[test]
fn refused_urls() {
    let rows = [
        ("../x", "parse \"../x\": invalid URI for request"),
        ("https://a:b", "parse \"https://a:b\": invalid port \":b\" after host"),
        ("", "parse \"\": empty url"),
        (":x", "parse \":x\": missing protocol scheme"),
        ("http://[::1", "parse \"http://[::1\": missing ']' in host"),
        ("/%zz", "parse \"/%zz\": invalid URL escape \"%zz\""),
        ("http://a b/", "parse \"http://a b/\": invalid character \" \" in host name"),
    ];
    for (text, why) in rows {
        let expected = format!("error: URL parse error during conversion from string: {why}");
        assert_eq!(evaluate(&format!("url('{text}')")), expected);
    }
}

#[test]
fn addresses() {
    check_true(&[
        "isIP('1.2.3.4') && isIP('::1') && !isIP('1.2.3') && !isIP('::ffff:1.2.3.4')",
        "!isIP('fe80::1%eth0') && !isIP('01.2.3.4')",
        "ip('1.2.3.4').family() == 4 && ip('::1').family() == 6",
        "ip('::1').isLoopback() && ip('0.0.0.0').isUnspecified()",
        "ip('224.0.0.1').isLinkLocalMulticast() && ip('ff02::1').isLinkLocalMulticast()",
        "ip('169.254.1.1').isLinkLocalUnicast() && ip('fe80::1').isLinkLocalUnicast()",
        "ip('10.0.0.1').isGlobalUnicast() && !ip('255.255.255.255').isGlobalUnicast()",
        "ip.isCanonical('::1') && !ip.isCanonical('::01')",
        "string(ip('2001:DB8::1')) == '2001:db8::1'",
        "type(ip('::1')) == net.IP",
        "ip('::1') == ip('0::1') && ip('::1') != ip('::2')",
    ]);
    let refused = "parse error during conversion from string: ParseAddr";
    check(&[
        (
            "ip('256.0.0.1')",
            &format!(
                "error: IP Address \"256.0.0.1\" {refused}(\"256.0.0.1\"): \
                      IPv4 field has value >255"
            ),
        ),
        (
            "ip('not an address')",
            &format!(
                "error: IP Address \"not an address\" {refused}(\"not an address\"): \
                      unable to parse IP"
            ),
        ),
        (
            "ip('::ffff:1.2.3.4')",
            "error: IPv4-mapped IPv6 address \"::ffff:1.2.3.4\" is not allowed",
        ),
        ("ip('fe80::1%eth0')", "error: IP address \"fe80::1%eth0\" with zone value is not allowed"),
    ]);
    let four = "ip('192.168.0.1')";
    let six = "ip('2001:db8:3333:4444:5555:6666:7777:8888')";
    check_costs(&[
        (four, 2, 2, 2),
        (six, 4, 4, 4),
        ("ip('192.168.0.1').family()", 3, 3, 3),
        ("ip('192.168.0.1') == ip('192.168.0.1')", 5, 5, 5),
        (&format!("{six} == {four}"), 7, 7, 7),
        ("ip.isCanonical('192.168.0.1')", 3, 3, 3),
        ("ip.isCanonical('2001:db8:3333:4444:5555:6666:7777:8888')", 8, 8, 8),
        ("ip.isCanonical('2001:db8::abcd')", 3, 3, 3),
    ]);
}

#[test]
fn networks() {
    check_true(&[
        "isCIDR('10.0.0.0/8') && !isCIDR('10.0.0.0') && !isCIDR('10.0.0.0/33')",
        "cidr('192.168.0.0/24').containsIP('192.168.0.5')",
        "!cidr('192.168.0.0/24').containsIP(ip('192.168.1.5'))",
        "cidr('192.168.0.0/24').containsCIDR('192.168.0.0/25')",
        "!cidr('192.168.0.0/24').containsCIDR(cidr('192.168.0.0/23'))",
        "cidr('192.168.1.5/24').masked() == cidr('192.168.1.0/24')",
        "cidr('192.168.1.5/24').ip() == ip('192.168.1.5')",
        "cidr('2001:db8::/32').prefixLength() == 32",
        "string(cidr('192.168.1.5/24')) == '192.168.1.5/24'",
        "!cidr('0.0.0.0/0').containsIP('::1') && cidr('::/0').containsIP('::1')",
        "type(cidr('::/0')) == net.CIDR",
    ]);
    let refused = "network address parse error during conversion from string: ";
    let prefix = format!("error: {refused}{refused}netip.ParsePrefix");
    check(&[
        ("cidr('192.168.0.0')", &format!("{prefix}(\"192.168.0.0\"): no '/'")),
        (
            "cidr('192.168.0.0/x')",
            &format!("{prefix}(\"192.168.0.0/x\"): bad bits after slash: \"x\""),
        ),
        (
            "cidr('192.168.0.0/33')",
            &format!("{prefix}(\"192.168.0.0/33\"): prefix length out of range"),
        ),
    ]);
    check_costs(&[
        ("cidr('192.168.0.0/16')", 2, 2, 2),
        ("cidr('192.168.0.0/16').ip()", 3, 3, 3),
        ("cidr('192.168.0.0/16') == cidr('2001:db8::/32')", 5, 5, 5),
        ("cidr('192.168.0.0/16').containsCIDR(cidr('192.0.0.0/30'))", 7, 11, 7),
        ("cidr('192.168.0.0/16').containsCIDR('192.168.0.0/16')", 7, 11, 7),
        ("cidr('192.168.0.0/16').containsIP(ip('192.0.0.1'))", 4, 7, 4),
        ("cidr('192.168.0.0/16').containsIP(ip('192.169.0.1'))", 5, 8, 5),
        ("cidr('192.168.0.0/16').containsIP('192.0.0.1')", 4, 7, 4),
        ("cidr('2001:db8::/32').containsCIDR('2001:db8::/126')", 7, 11, 7),
        ("cidr('2001:db8::/32').containsIP('2001:db8:3333:4444:5555:6666:7777:8888')", 7, 10, 7),
        ("cidr('2001:db8::/32').containsIP(ip('2001:db8::1'))", 5, 8, 5),
    ]);
}

#[test]
fn quantities() {
    check_true(&[
        "quantity('200M') == quantity('0.2G') && quantity('1Ki') == quantity('1024')",
        "isQuantity('1.3Gi') && !isQuantity('1.3GiB') && !isQuantity('')",
        "sign(quantity('-1')) == -1 && sign(quantity('0')) == 0",
        "quantity('50M').isLessThan(quantity('50Mi'))",
        "quantity('50Mi').isGreaterThan(quantity('50M'))",
        "quantity('200M').compareTo(quantity('0.2G')) == 0",
        "quantity('50k').add(quantity('20')) == quantity('50.02k')",
        "quantity('50k').sub(20) == quantity('49980')",
        "quantity('50k').add(20).sub(quantity('100k')).sub(-50000).asInteger() == 20",
        "quantity('50.703k').asApproximateFloat() == 50703.0",
        "quantity('50k').isInteger() && quantity('50.5k').isInteger()",
        "!quantity('1.5').isInteger() && !quantity('1000m').isInteger()",
    ]);
    check(&[
        ("quantity('1.5').asInteger()", "error: cannot convert value to integer"),
        (
            "quantity('10Mo')",
            "error: quantities must match the regular expression \
          '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
        ("quantity('10Mu')", "error: unable to parse quantity's suffix"),
    ]);
    check_costs(&[
        ("quantity('12Mi')", 1, 1, 1),
        ("isQuantity('20M')", 1, 1, 1),
        ("quantity('200M') == quantity('200M')", 3, 3, 3),
        ("quantity('200M') == quantity('0.2G') && quantity('0.2G') == quantity('200M')", 3, 6, 6),
        ("quantity('50M').isLessThan(quantity('50Mi'))", 3, 3, 3),
        ("quantity('50k').add(quantity('20')) == quantity('50.02k')", 5, 5, 5),
        ("quantity('50k').sub(20) == quantity('49980')", 4, 4, 4),
        ("quantity('50k').add(20).sub(quantity('100k')).asInteger() > 0", 6, 6, 6),
        ("quantity('50').isInteger()", 2, 2, 2),
        ("quantity('50.703k').asApproximateFloat() > 0.0", 3, 3, 3),
    ]);
}

#[test]
fn versions() {
    check_true(&[
        "isSemver('1.2.3') && !isSemver('v1.2') && isSemver('v1.2', true)",
        "semver('1.2.3-rc.1').isLessThan(semver('1.2.3'))",
        "semver('1.2.3-rc.2').isLessThan(semver('1.2.3-rc.10'))",
        "semver('1.2.3-1').compareTo(semver('1.2.3-a')) == -1",
        "semver('1.2.3+a') == semver('1.2.3+b')",
        "semver('v01.02', true) == semver('1.2.0')",
        "semver('1.2.3').major() == 1 && semver('1.2.3').minor() == 2",
        "semver('1.2.3').patch() == 3",
    ]);
    check(&[
        ("semver('')", "error: Version string empty"),
        ("semver('1.2')", "error: No Major.Minor.Patch elements found"),
        ("semver('a.2.3')", "error: Invalid character(s) found in major number \"a\""),
        ("semver('01.2.3')", "error: Major number must not contain leading zeroes \"01\""),
        ("semver('1.2.3-')", "error: Prerelease is empty"),
        ("semver('1.2-a', true)", "error: short version cannot contain PreRelease/Build meta data"),
    ]);
    check_costs(&[
        ("semver('1.0.0')", 1, 1, 1),
        ("isSemver('1234.56789012345.67890123456789')", 4, 4, 4),
        ("semver('1.2.3').major()", 2, 2, 2),
        ("semver('1.0.0').compareTo(semver('1.2.3'))", 3, 3, 3),
    ]);
}

#[test]
fn formats() {
    check_true(&[
        "!format.dns1123Label().validate('my-name').hasValue()",
        "format.dns1123Label().validate('My').value()[0].startsWith('a lowercase RFC 1123 label')",
        "!format.dns1123LabelPrefix().validate('my-').hasValue()",
        "format.dns1123Label().validate('my-').hasValue()",
        "!format.dns1035LabelPrefix().validate('my-').hasValue()",
        "!format.dns1123SubdomainPrefix().validate('my.name-').hasValue()",
        "!format.qualifiedName().validate('a.b/c').hasValue()",
        "format.labelValue().validate('a b').hasValue()",
        "format.uuid().validate('x').value() == ['does not match the UUID format']",
        "!format.uuid().validate('d2ad6dd7-0f4a-4ab8-80a6-1f4b7d7e0f6a').hasValue()",
        "format.byte().validate('').value() == ['invalid base64']",
        "!format.byte().validate('aGVsbG8=').hasValue()",
        "format.date().validate('2021-02-30').value() == ['invalid date']",
        "!format.date().validate('2021-02-28').hasValue()",
        "!format.datetime().validate('2021-02-28T01:02:03.5+01:00').hasValue()",
        "format.datetime().validate('2021-02-28').value() == ['invalid datetime']",
        "format.uri().validate('../x').value()[0] == 'parse \"../x\": invalid URI for request'",
        "!format.named('x').hasValue() && format.named('uri').value() == format.uri()",
    ]);
    check_costs(&[
        ("format.named('dns1123subdomain')", 1, 1, 1),
        ("format.named('dns1123Subdomain').value().validate('my-name')", 34, 34, 17),
        ("format.named('dns1123Label').value().validate('my-name')", 34, 34, 10),
        ("format.named('dns1123Label').value() == format.named('dns1123Label').value()", 5, 11, 5),
    ]);
}

#[test]
fn keys_of_patches() {
    check(&[("jsonpatch.escapeKey('a/b~c')", "\"a~1b~0c\"")]);
    check_costs(&[("jsonpatch.escapeKey('abc/def~ abc/def~')", 2, 2, 2)]);
}

#[test]
fn costs_of_authorization() {
    let backend = "authorizer.group('apps').resource('deployments').subresource('status')\
                   .namespace('test').name('backend')";
    let of = |rest: &str| format!("{backend}{rest}");
    let node = "spec.nodeName=example-node-name.fully.qualified.domain.name.example.com";
    let pods = "authorizer.group('').resource('pods')";
    check_costs(&[
        ("authorizer.path('/healthz')", 2, 2, 2),
        (backend, 6, 6, 6),
        (&format!("{pods}.fieldSelector('{node}')"), 1821, 1821, 1821),
        (&format!("{pods}.labelSelector('{node}')"), 1821, 1821, 1821),
        ("authorizer.path('/healthz').check('get').allowed()", 350_003, 350_003, 350_003),
        (&of(".check('create').allowed()"), 350_007, 350_007, 350_007),
        (&of(".check('create').errored()"), 350_007, 350_007, 350_007),
        (&of(".check('create').error()"), 350_007, 350_007, 350_007),
    ]);
}

#[test]
fn what_is_asked_is_answered_in_the_next_round() {
    let env = environment().variable("authorizer", authz::authorizer_type());
    let text = "authorizer.serviceAccount('ns', 'me').group('').resource('pods').name('p')\
                .check('get').allowed() || authorizer.path('/x').check('get').reason() == 'why'";
    let program = env.compile(text).unwrap().program().unwrap();
    let decisions = Arc::new(Decisions::default());
    let variables = Bindings::new().with("authorizer", authz::authorizer(&decisions));
    assert!(program.evaluate(&variables, u64::MAX).result.is_err());
    let asked = decisions.take_asked();
    let subject = Subject::ServiceAccount { namespace: "ns".to_owned(), name: "me".to_owned() };
    assert_eq!(asked[0].subject, subject);
    let (resource, name) = ("pods".to_owned(), "p".to_owned());
    let resource = Resource { resource, name, ..Resource::default() };
    assert_eq!(asked[0].target, Target::Resource(resource));
    assert_eq!(asked[1].target, Target::Path("/x".to_owned()));
    decisions.decide(asked[0].clone(), Decision::default());
    let because = Decision { reason: "why".to_owned(), ..Decision::default() };
    decisions.decide(asked[1].clone(), because);
    let evaluated = program.evaluate(&variables, u64::MAX);
    assert_eq!(evaluated.result.unwrap().as_bool(), Some(true));
    assert!(decisions.is_settled());
}

#[test]
fn names_of_service_accounts_are_checked() {
    let env = environment().variable("authorizer", authz::authorizer_type());
    let decisions = Arc::new(Decisions::default());
    let variables = Bindings::new().with("authorizer", authz::authorizer(&decisions));
    let rows = [
        ("authorizer.serviceAccount('ns', 'A')", "Invalid service account name"),
        ("authorizer.serviceAccount('n.s', 'a')", "Invalid service account namespace"),
        ("authorizer.path(' ')", "path must not be empty"),
        ("authorizer.group('').resource('')", "resource must not be empty"),
    ];
    for (text, why) in rows {
        let program = env.compile(text).unwrap().program().unwrap();
        let err = program.evaluate(&variables, u64::MAX).result.unwrap_err();
        assert_eq!(err.to_string(), why);
    }
}
