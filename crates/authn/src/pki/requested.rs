//! Certificates that somebody asked for (PKCS #10): subject, key and names are theirs, everything
//! else is the authority's to say. The builder of our own certificates keeps one organization per
//! subject, and users may be in many groups, so these are written here.

use api::certificates::certificate_signing_request::AlternativeNames;
use api::certificates::pem;
use jiff::Timestamp;
use rcgen::{
    KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ECDSA_P521_SHA256,
    PKCS_ECDSA_P521_SHA384, PKCS_ECDSA_P521_SHA512, PKCS_ED25519, PKCS_RSA_SHA256, PKCS_RSA_SHA384,
    PKCS_RSA_SHA512, SignatureAlgorithm, SigningKey as _,
};
use stdx::Random;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::extensions::ParsedExtension;
use x509_parser::prelude::{FromDer as _, X509Certificate};
use x509_parser::x509::X509Name;

use super::der::{self, named_bits, sequence, value};
use super::{Authority, Error, since};

/// What the authority says of a certificate.
#[derive(Clone, Debug)]
pub struct Terms {
    /// As the API names them.
    pub usages: Vec<String>,
    pub not_before: Timestamp,
    pub not_after: Timestamp,
    /// Of a certificate of a node: since which revision of the store it is that.
    pub since: Option<u64>,
}

/// Bit of the extension, by name. `signing` is an older word.
const KEY_USAGES: &[(&str, u16)] = &[
    ("signing", 0),
    ("digital signature", 0),
    ("content commitment", 1),
    ("key encipherment", 2),
    ("data encipherment", 3),
    ("key agreement", 4),
    ("cert sign", 5),
    ("crl sign", 6),
    ("encipher only", 7),
    ("decipher only", 8),
];

/// Identifiers of the extension, by name, in the order in which a certificate has them.
const EXTENDED_KEY_USAGES: &[(&str, &[u8])] = &[
    ("any", &[0x55, 0x1d, 0x25, 0]),
    ("server auth", &[0x2b, 6, 1, 5, 5, 7, 3, 1]),
    ("client auth", &[0x2b, 6, 1, 5, 5, 7, 3, 2]),
    ("code signing", &[0x2b, 6, 1, 5, 5, 7, 3, 3]),
    ("email protection", &[0x2b, 6, 1, 5, 5, 7, 3, 4]),
    ("s/mime", &[0x2b, 6, 1, 5, 5, 7, 3, 4]),
    ("ipsec end system", &[0x2b, 6, 1, 5, 5, 7, 3, 5]),
    ("ipsec tunnel", &[0x2b, 6, 1, 5, 5, 7, 3, 6]),
    ("ipsec user", &[0x2b, 6, 1, 5, 5, 7, 3, 7]),
    ("timestamping", &[0x2b, 6, 1, 5, 5, 7, 3, 8]),
    ("ocsp signing", &[0x2b, 6, 1, 5, 5, 7, 3, 9]),
    ("microsoft sgc", &[0x2b, 6, 1, 4, 1, 0x82, 0x37, 10, 3, 3]),
    ("netscape sgc", &[0x60, 0x86, 0x48, 1, 0x86, 0xf8, 0x42, 4, 1]),
];

/// What of a subject is kept, below 2.5.4, in the order in which it is written: country,
/// organization, unit, locality, province, street, postal code, common name, serial number.
const SUBJECT: &[u8] = &[6, 10, 11, 7, 8, 9, 17, COMMON_NAME, SERIAL_NUMBER];
const COMMON_NAME: u8 = 3;
const SERIAL_NUMBER: u8 = 5;

const KEY_USAGE: &[u8] = &[0x55, 0x1d, 15];
const SUBJECT_ALTERNATIVE_NAME: &[u8] = &[0x55, 0x1d, 17];
const BASIC_CONSTRAINTS: &[u8] = &[0x55, 0x1d, 19];
const AUTHORITY_KEY_IDENTIFIER: &[u8] = &[0x55, 0x1d, 35];
const EXTENDED_KEY_USAGE: &[u8] = &[0x55, 0x1d, 37];

impl Authority {
    /// The certificate, as PEM. That whoever asks has the key was checked before.
    pub fn sign_request(
        &self,
        request: &[u8],
        terms: &Terms,
        random: &Random,
    ) -> Result<String, Error> {
        let unreadable = |err: String| Error::Certificate(err);
        let blocks = pem::blocks(self.certificate_pem());
        let own = blocks.first().map_or(&[][..], |it| it.bytes.as_slice());
        let (_, own) = X509Certificate::from_der(own).map_err(|err| unreadable(err.to_string()))?;
        let (_, request) = X509CertificationRequest::from_der(request)
            .map_err(|err| Error::Request(err.to_string()))?;
        let key = self.key();
        let algorithm = algorithm(key)?;
        let body = sequence([
            value(0xa0, &value(der::INTEGER, &[2])),
            serial_number(random),
            algorithm.to_vec(),
            own.subject().as_raw().to_vec(),
            sequence([time(terms.not_before), time(terms.not_after)]),
            subject(&request.certification_request_info.subject)?,
            request.certification_request_info.subject_pki.raw.to_vec(),
            value(0xa3, &extensions(&request, &own, terms)?),
        ]);
        let signature = key.sign(&body).map_err(|err| Error::Sign(err.to_string()))?;
        let signed = sequence([body, algorithm.to_vec(), der::bit_string(&signature)]);
        Ok(pem::render("CERTIFICATE", &signed))
    }
}

/// 127 bits, positive and not zero.
fn serial_number(random: &Random) -> Vec<u8> {
    let mut serial = [0; 16];
    random.fill(&mut serial);
    serial[0] = (serial[0] & 0x7f) | 0x01;
    value(der::INTEGER, &serial)
}

/// What the key signs with, as certificates name it (RFC 5758, 8017, 8410).
fn algorithm(key: &KeyPair) -> Result<&'static [u8], Error> {
    macro_rules! ecdsa {
        ($hash:literal) => {
            &[0x30, 10, 6, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, $hash]
        };
    }
    macro_rules! rsa {
        ($hash:literal) => {
            &[0x30, 13, 6, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 13, 1, 1, $hash, 5, 0]
        };
    }
    let known: [(&SignatureAlgorithm, &'static [u8]); 9] = [
        (&PKCS_ECDSA_P256_SHA256, ecdsa!(2)),
        (&PKCS_ECDSA_P384_SHA384, ecdsa!(3)),
        (&PKCS_ECDSA_P521_SHA256, ecdsa!(2)),
        (&PKCS_ECDSA_P521_SHA384, ecdsa!(3)),
        (&PKCS_ECDSA_P521_SHA512, ecdsa!(4)),
        (&PKCS_RSA_SHA256, rsa!(11)),
        (&PKCS_RSA_SHA384, rsa!(12)),
        (&PKCS_RSA_SHA512, rsa!(13)),
        (&PKCS_ED25519, &[0x30, 5, 6, 3, 0x2b, 0x65, 0x70]),
    ];
    let found = known.into_iter().find(|(it, _)| key.is_compatible(it));
    found.map(|it| it.1).ok_or_else(|| Error::Key("of a sort that cannot sign".to_owned()))
}

fn time(at: Timestamp) -> Vec<u8> {
    // Two digits of the year until 2049 (RFC 5280).
    match at.strftime("%Y").to_string().as_str() < "2050" {
        true => value(der::UTC_TIME, at.strftime("%y%m%d%H%M%SZ").to_string().as_bytes()),
        false => value(der::GENERALIZED_TIME, at.strftime("%Y%m%d%H%M%SZ").to_string().as_bytes()),
    }
}

/// What it says of who asks, written anew: others may read an odd form otherwise than we did.
fn subject(name: &X509Name<'_>) -> Result<Vec<u8>, Error> {
    let mut parts = Vec::new();
    for attribute in SUBJECT {
        let id = format!("2.5.4.{attribute}");
        let of = name.iter_attributes().filter(|it| it.attr_type().to_id_string() == id);
        let texts = of.map(|it| it.as_str().map_err(|_| Error::Subject(id.clone())));
        let mut texts = texts.collect::<Result<Vec<&str>, Error>>()?;
        if matches!(*attribute, COMMON_NAME | SERIAL_NUMBER) {
            // There is one; of several the last counts, as upstream.
            texts.drain(..texts.len().saturating_sub(1));
        }
        parts.extend(texts.into_iter().map(|text| {
            let id = value(der::OBJECT_IDENTIFIER, &[0x55, 4, *attribute]);
            let pair = sequence([id, value(der::UTF8_STRING, text.as_bytes())]);
            value(der::SET, &pair)
        }));
    }
    Ok(sequence(parts))
}

fn extensions(
    request: &X509CertificationRequest<'_>,
    own: &X509Certificate<'_>,
    terms: &Terms,
) -> Result<Vec<u8>, Error> {
    let mut all = Vec::new();
    let known = |usage: &&String| {
        let usage = usage.as_str();
        KEY_USAGES.iter().any(|it| it.0 == usage)
            || EXTENDED_KEY_USAGES.iter().any(|it| it.0 == usage)
    };
    if let Some(unknown) = terms.usages.iter().find(|it| !known(it)) {
        return Err(Error::Usage(unknown.clone()));
    }
    let is_asked = |usage: &str| terms.usages.iter().any(|it| it == usage);
    let bits = KEY_USAGES.iter().filter(|it| is_asked(it.0)).fold(0, |bits, it| bits | 1 << it.1);
    if bits != 0 {
        all.push(critical(KEY_USAGE, &named_bits(bits)));
    }
    let mut extended: Vec<&[u8]> =
        EXTENDED_KEY_USAGES.iter().filter(|it| is_asked(it.0)).map(|it| it.1).collect();
    extended.dedup();
    if !extended.is_empty() {
        let ids = extended.iter().map(|it| value(der::OBJECT_IDENTIFIER, it));
        all.push(extension(EXTENDED_KEY_USAGE, &sequence(ids)));
    }
    // No authority.
    all.push(critical(BASIC_CONSTRAINTS, &sequence([])));
    if let Some(id) = key_identifier(own) {
        all.push(extension(AUTHORITY_KEY_IDENTIFIER, &sequence([value(0x80, id)])));
    }
    let names = names(&AlternativeNames::of(request));
    if !names.is_empty() {
        let names = sequence(names);
        let has_subject = request.certification_request_info.subject.iter().next().is_some();
        let write = if has_subject { extension } else { critical };
        all.push(write(SUBJECT_ALTERNATIVE_NAME, &names));
    }
    all.extend(terms.since.map(|it| extension(since::ID, &since::write(it))));
    Ok(sequence(all))
}

fn names(names: &AlternativeNames) -> Vec<Vec<u8>> {
    let dns = names.dns.iter().map(|it| value(0x82, it.as_bytes()));
    let emails = names.emails.iter().map(|it| value(0x81, it.as_bytes()));
    let addresses = names.addresses.iter().map(|it| match it {
        std::net::IpAddr::V4(it) => value(0x87, &it.octets()),
        std::net::IpAddr::V6(it) => value(0x87, &it.octets()),
    });
    let uris = names.uris.iter().map(|it| value(0x86, it.as_bytes()));
    dns.chain(emails).chain(addresses).chain(uris).collect()
}

fn extension(id: &[u8], content: &[u8]) -> Vec<u8> {
    sequence([value(der::OBJECT_IDENTIFIER, id), value(der::OCTET_STRING, content)])
}

fn critical(id: &[u8], content: &[u8]) -> Vec<u8> {
    let flag = value(der::BOOLEAN, &[0xff]);
    sequence([value(der::OBJECT_IDENTIFIER, id), flag, value(der::OCTET_STRING, content)])
}

fn key_identifier<'a>(certificate: &'a X509Certificate<'_>) -> Option<&'a [u8]> {
    certificate.extensions().iter().find_map(|it| match it.parsed_extension() {
        ParsedExtension::SubjectKeyIdentifier(id) => Some(id.0),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use stdx::Random;
    use x509_parser::prelude::{FromDer as _, X509Certificate};

    use super::{Authority, Terms, pem};

    const REQUESTS: &[&str] = &[
        include_str!("../../../api/testdata/request.pem"),
        include_str!("../../../api/testdata/request-p521.pem"),
        include_str!("../../../api/testdata/request-rsa.pem"),
        include_str!("../../../api/testdata/request-ed25519.pem"),
    ];

    fn authority() -> Authority {
        let now = Timestamp::from_second(1_767_225_600).unwrap();
        Authority::create("xebec", now, &Random::from_seed(1)).unwrap()
    }

    fn signed(authority: &Authority, request: &str, usages: &[&str], end: i64) -> Vec<u8> {
        let terms = Terms {
            usages: usages.iter().map(|it| (*it).to_owned()).collect(),
            not_before: Timestamp::from_second(1_767_225_600).unwrap(),
            not_after: Timestamp::from_second(end).unwrap(),
            since: Some(0x1234_5678_9abc),
        };
        let der = &pem::blocks(request)[0].bytes;
        let certificate = authority.sign_request(der, &terms, &Random::from_seed(2)).unwrap();
        pem::blocks(&certificate).remove(0).bytes
    }

    #[test]
    fn requests_with_every_sort_of_key_are_signed_and_hold() {
        let authority = authority();
        let own = pem::blocks(authority.certificate_pem()).remove(0).bytes;
        let (_, own) = X509Certificate::from_der(&own).unwrap();
        for request in REQUESTS {
            let der = signed(&authority, request, &["client auth", "signing"], 1_767_229_200);
            let (rest, certificate) = X509Certificate::from_der(&der).unwrap();
            assert!(rest.is_empty());
            certificate.verify_signature(Some(own.public_key())).unwrap();
            assert_eq!(certificate.issuer(), own.subject());
            assert_eq!(certificate.validity().not_after.timestamp(), 1_767_229_200);
            assert!(!certificate.is_ca());
            let usages = certificate.extended_key_usage().unwrap().unwrap().value;
            assert!(usages.client_auth && !usages.server_auth);
            let usages = certificate.key_usage().unwrap().unwrap().value;
            assert!(usages.digital_signature() && !usages.key_encipherment());
            assert_eq!(super::since::read(&certificate), Some(0x1234_5678_9abc));
        }
    }

    #[test]
    fn a_certificate_says_who_asked_and_may_end_late() {
        let end = Timestamp::from_second(2_700_000_000).unwrap();
        let der = signed(&authority(), REQUESTS[0], &["any", "decipher only"], end.as_second());
        let (_, certificate) = X509Certificate::from_der(&der).unwrap();
        assert_eq!(certificate.subject().to_string(), "O=system:nodes, CN=system:node:web");
        assert_eq!(certificate.validity().not_after.timestamp(), end.as_second());
        assert!(certificate.key_usage().unwrap().unwrap().value.decipher_only());
    }

    #[test]
    fn usages_that_nobody_knows_are_refused() {
        let now = Timestamp::from_second(0).unwrap();
        let terms = Terms {
            usages: vec!["fishing".to_owned()],
            not_before: now,
            not_after: now,
            since: None,
        };
        let der = &pem::blocks(REQUESTS[0])[0].bytes;
        let refused = authority().sign_request(der, &terms, &Random::from_seed(1));
        assert_eq!(refused.unwrap_err().to_string(), r#"unrecognized usage values: ["fishing"]"#);
    }
}
