//! Chance from a seed, without a lock or a dependency: a torture draws more numbers than it does
//! anything else.

#[derive(Clone, Debug)]
pub struct Chance(u64);

impl Chance {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// SplitMix64: every seed is good, and neighbors do not resemble each other.
    #[expect(clippy::should_implement_trait, reason = "it has no end")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number in `0..bound`; 0 when `bound` is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        if bound == 0 { 0 } else { (self.next() % bound as u64) as usize }
    }

    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// Which of `n` things in order are kept: none, all, the first few, or any, since each way of
    /// losing finds other mistakes.
    pub fn pick(&mut self, n: usize) -> Vec<bool> {
        match self.below(5) {
            0 => vec![false; n],
            1 => vec![true; n],
            2 => {
                let kept = self.below(n + 1);
                (0..n).map(|it| it < kept).collect()
            }
            3 => {
                let lost = self.below(n);
                (0..n).map(|it| it != lost).collect()
            }
            _ => (0..n).map(|_| self.one_in(2)).collect(),
        }
    }
}
