//! What was answered lately, so that the same question is not asked for every pod of a ReplicaSet.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;

use super::review::Answer;

/// As many as upstream keeps.
const ANSWERS_MAX: usize = 1024;
/// A question and its answer that are longer together are not kept.
const BYTES_MAX: usize = 16 << 10;

#[derive(Default)]
pub(super) struct Answers(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    by_question: HashMap<Vec<u8>, Entry>,
    n_asked: u64,
}

struct Entry {
    answer: Answer,
    until: Timestamp,
    /// Of all questions, the one that it last answered.
    used: u64,
}

impl Answers {
    pub(super) fn get(&self, question: &[u8], now: Timestamp) -> Option<Answer> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.n_asked += 1;
        let n_asked = kept.n_asked;
        let entry = kept.by_question.get_mut(question).filter(|it| now < it.until)?;
        entry.used = n_asked;
        Some(entry.answer.clone())
    }

    pub(super) fn put(
        &self,
        question: &[u8],
        (answer, n_bytes): (&Answer, usize),
        until: Timestamp,
    ) {
        if question.len() + n_bytes > BYTES_MAX {
            return;
        }
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.by_question.len() >= ANSWERS_MAX && !kept.by_question.contains_key(question) {
            let oldest = kept.by_question.iter().min_by_key(|it| it.1.used);
            if let Some(oldest) = oldest.map(|it| it.0.clone()) {
                kept.by_question.remove(&oldest);
            }
        }
        let used = kept.n_asked;
        kept.by_question.insert(question.to_owned(), Entry { answer: answer.clone(), until, used });
    }
}

#[cfg(test)]
mod tests {
    use jiff::{SignedDuration, Timestamp};

    use super::{ANSWERS_MAX, Answers, BYTES_MAX};
    use crate::plugins::image_policy_webhook::review::Answer;

    #[test]
    fn the_one_that_was_not_asked_for_longest_makes_room() {
        let (answers, answer) = (Answers::default(), Answer::default());
        let now = Timestamp::UNIX_EPOCH;
        let later = now + SignedDuration::from_secs(30);
        let question = |n: usize| n.to_string().into_bytes();
        for n in 0..ANSWERS_MAX {
            assert_eq!(answers.get(&question(n), now), None);
            answers.put(&question(n), (&answer, 0), later);
        }
        assert_eq!(answers.get(&question(0), now), Some(answer.clone()));
        answers.put(&question(ANSWERS_MAX), (&answer, 0), later);
        assert_eq!(answers.get(&question(1), now), None, "it made room");
        assert_eq!(answers.get(&question(0), now), Some(answer.clone()));
        assert_eq!(answers.get(&question(0), later), None, "its time is over");
        answers.put(b"long", (&answer, BYTES_MAX), later);
        assert_eq!(answers.get(b"long", now), None);
    }
}
