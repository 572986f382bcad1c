//! Words of formulas.

/// Declares words with the text of each.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($variant:ident $text:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum $name { $($variant),* }

        impl $name {
            pub const ALL: &[$name] = &[$($name::$variant),*];

            pub const fn text(self) -> &'static str {
                match self { $($name::$variant => $text),* }
            }

            pub fn of(text: &str) -> Option<Self> {
                $name::ALL.iter().copied().find(|word| word.text() == text)
            }
        }
    };
}
pub(super) use words;
