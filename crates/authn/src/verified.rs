//! Tokens whose signature was verified: to verify it again would cost a hundred times what a
//! look-up does.
//!
//! Only what can never change is remembered. Whether a token is valid now, for whom it is meant,
//! and whether what it is bound to still lives is asked for each request.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use apimachinery::User;
use sha2::{Digest as _, Sha256};

use crate::{legacy, tokens};

/// Of each generation. A token takes about 2 KiB.
const TOKENS_MAX: usize = 4096;

/// What a token of ours says.
pub(crate) struct Token {
    pub(crate) claims: Claims,
    pub(crate) user: Arc<User>,
}

#[derive(Debug, serde::Deserialize)]
#[serde(untagged)]
pub(crate) enum Claims {
    /// Has an end, an audience, and perhaps an object that it ends with.
    Bound(Box<tokens::Claims>),
    /// Kept in a Secret.
    Legacy(legacy::Claims),
}

/// By its hash: what is kept is of no use to whoever could read it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Key([u8; 32]);

impl Key {
    pub(crate) fn of(token: &str) -> Self {
        Self(Sha256::digest(token).into())
    }
}

/// Two generations: who is asked for moves to the young, and when those are many the old are
/// forgotten.
#[derive(Default)]
pub(crate) struct Verified(Mutex<Generations>);

#[derive(Default)]
struct Generations {
    young: HashMap<Key, Arc<Token>>,
    old: HashMap<Key, Arc<Token>>,
}

impl Verified {
    pub(crate) fn get(&self, key: Key) -> Option<Arc<Token>> {
        let mut generations = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(token) = generations.young.get(&key) {
            return Some(token.clone());
        }
        let token = generations.old.remove(&key)?;
        generations.put(key, token.clone());
        Some(token)
    }

    pub(crate) fn put(&self, key: Key, token: Arc<Token>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).put(key, token);
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        let generations = self.0.lock().unwrap();
        generations.young.len() + generations.old.len()
    }
}

impl Generations {
    fn put(&mut self, key: Key, token: Arc<Token>) {
        if self.young.len() >= TOKENS_MAX {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, token);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{Claims, Key, TOKENS_MAX, Token, Verified};
    use crate::tokens;

    fn token() -> Arc<Token> {
        let claims = r#"{"aud":"a","exp":1,"iat":0,"iss":"i","sub":"s","kubernetes.io":
            {"namespace":"n","serviceaccount":{"name":"s"}}}"#;
        let claims: tokens::Claims = serde_json::from_str(claims).unwrap();
        Arc::new(Token { user: Arc::new(claims.user()), claims: Claims::Bound(Box::new(claims)) })
    }

    #[test]
    fn those_in_use_stay_and_the_others_make_room() {
        let (verified, token) = (Verified::default(), token());
        let key = |number: usize| Key::of(&number.to_string());
        for number in 0..10 * TOKENS_MAX {
            verified.put(key(number), token.clone());
            assert!(verified.len() <= 2 * TOKENS_MAX);
            // Asked for now and then.
            if number % 1000 == 0 {
                assert!(verified.get(key(0)).is_some(), "after {number}");
            }
        }
        assert!(verified.get(key(1)).is_none());
        assert!(verified.get(key(10 * TOKENS_MAX - 1)).is_some());
    }
}
