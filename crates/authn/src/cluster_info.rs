//! What a machine believes of a cluster that it does not know yet: what a token signed that both have
//! (a detached JWS, RFC 7515 appendix F), and an authority whose key it was told.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, DecodingKey};
use serde::Deserialize;

use crate::bootstrap::BootstrapToken;

/// Key of the ConfigMap `kube-public/cluster-info` with the signature by a token.
pub const SIGNATURE_PREFIX: &str = "jws-kubeconfig-";
/// More is no signature.
const SIGNATURE_MAX: usize = 4096;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("the signature by the token {0} is not one: it has not the form of a detached JWS")]
    Form(String),
    #[error("the signature by the token {0} is of another algorithm than HS256 or another token")]
    Header(String),
    #[error("the signature is not by this token {0}: its secret is another one here")]
    Signature(String),
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: String,
}

/// Whether whoever signed `content` has the secret of the token.
pub fn verify(content: &str, signature: &str, token: &BootstrapToken) -> Result<(), Error> {
    let form = || Error::Form(token.id.clone());
    let parts: Vec<&str> = match signature.len() {
        0..=SIGNATURE_MAX => signature.split('.').collect(),
        _ => Vec::new(),
    };
    let [header, "", tag] = parts[..] else { return Err(form()) };
    let decoded = URL_SAFE_NO_PAD.decode(header).map_err(|_| form())?;
    let known: Header = serde_json::from_slice(&decoded).map_err(|_| form())?;
    if known.alg != "HS256" || known.kid != token.id {
        return Err(Error::Header(token.id.clone()));
    }
    let signed = format!("{header}.{}", URL_SAFE_NO_PAD.encode(content));
    let key = DecodingKey::from_secret(token.secret.as_bytes());
    match jsonwebtoken::crypto::verify(tag, signed.as_bytes(), &key, Algorithm::HS256) {
        Ok(true) => Ok(()),
        _ => Err(Error::Signature(token.id.clone())),
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;

    use super::verify;
    use crate::bootstrap::BootstrapToken;

    /// Made by the controller that signs.
    const CONTENT: &str = "content";

    fn signed(header: &str, secret: &str) -> String {
        let header = URL_SAFE_NO_PAD.encode(header);
        let message = format!("{header}.{}", URL_SAFE_NO_PAD.encode(CONTENT));
        let key = jsonwebtoken::EncodingKey::from_secret(secret.as_bytes());
        let tag =
            jsonwebtoken::crypto::sign(message.as_bytes(), &key, jsonwebtoken::Algorithm::HS256);
        format!("{header}..{}", tag.unwrap())
    }

    #[test]
    fn only_what_the_token_signed_is_believed() {
        let token = BootstrapToken::parse("abcdef.0123456789abcdef").unwrap();
        let check = |content: &str, signature: &str, expected: &str| {
            let found = verify(content, signature, &token);
            let found = found.map_or_else(|err| err.to_string(), |()| "believed".to_owned());
            assert!(found.starts_with(expected), "{found}");
        };
        const HEADER: &str = r#"{"alg":"HS256","kid":"abcdef"}"#;
        let good = signed(HEADER, "0123456789abcdef");
        check(CONTENT, &good, "believed");
        check("other content", &good, "the signature is not by this token");
        check(CONTENT, &signed(HEADER, "0123456789abcdee"), "the signature is not by this token");
        let (head, tag) = good.split_once("..").unwrap();
        for broken in
            ["", "..", &format!("{head}.x.{tag}"), &format!("{head}..{tag}.y"), &tag.repeat(200)]
        {
            check(CONTENT, broken, "the signature by the token abcdef is not one");
        }
        check(CONTENT, &format!("{head}.."), "the signature is not by this token");
        for header in [r#"{"alg":"none","kid":"abcdef"}"#, r#"{"alg":"HS256","kid":"abcdee"}"#] {
            let signature = signed(header, "0123456789abcdef");
            check(CONTENT, &signature, "the signature by the token abcdef is of another");
        }
    }
}
