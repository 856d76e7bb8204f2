//! Macros by which keys and words of a plan are declared once, with everything that is known about them.

use super::key::Key;

/// A section of a plan: its keys, and what merging layers needs to do with them.
pub(super) trait SectionKeys {
    /// The keys in their order.
    const KEYS: &'static [Key];

    /// Whether the key of this name is given.
    fn gives(&self, name: &str) -> bool;

    /// Removes the value of the key of this name.
    fn clear(&mut self, name: &str);

    /// The value of the key of this name, if it is given and is text.
    fn text(&mut self, name: &str) -> Option<&mut String>;
}

/// Declares a section: a struct of optional values that TOML is read into, and the [`Key`] of each.
///
/// A line is `name: Type = (meaning, example)` followed by methods of [`Key`]. Flags, help, `--set`, layers, phases, the Python keywords
/// and `docs/plan.md` follow from it; nothing else needs to know the name.
macro_rules! section {
    (
        $(#[$attribute:meta])*
        pub struct $name:ident = $section:literal {
            $(
                $(#[$note:meta])*
                $field:ident: $type:ty = ($meaning:literal, $example:literal) $(.$method:ident($($argument:expr),*))*;
            )*
        }
    ) => {
        $(#[$attribute])*
        #[derive(Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub struct $name {
            $(
                #[doc = concat!("`", $section, ".", stringify!($field), "`: ", $meaning, ".\n")]
                $(#[$note])*
                #[serde(skip_serializing_if = "Option::is_none")]
                pub $field: Option<$type>,
            )*
        }

        impl $name {
            /// These values, replaced by everything that `over` gives.
            #[must_use]
            pub fn merge(&self, over: &Self) -> Self {
                Self { $($field: over.$field.clone().or_else(|| self.$field.clone()),)* }
            }
        }

        impl $crate::spec::declare::SectionKeys for $name {
            const KEYS: &'static [$crate::spec::key::Key] = &[$(
                $crate::spec::key::Key::new::<$type>(
                    concat!($section, ".", stringify!($field)),
                    $meaning,
                    $example,
                )
                $(.$method($($argument),*))*,
            )*];

            fn gives(&self, name: &str) -> bool {
                match name {
                    $(stringify!($field) => self.$field.is_some(),)*
                    _ => false,
                }
            }

            fn clear(&mut self, name: &str) {
                match name {
                    $(stringify!($field) => self.$field = None,)*
                    _ => {}
                }
            }

            fn text(&mut self, name: &str) -> Option<&mut String> {
                use $crate::spec::key::Typed;
                match name {
                    $(stringify!($field) => self.$field.as_mut().and_then(Typed::text),)*
                    _ => None,
                }
            }
        }
    };
}

/// Declares an enum whose variants are words of a plan.
macro_rules! words {
    (
        $(#[$attribute:meta])*
        pub enum $name:ident {
            $($(#[$note:meta])* $variant:ident = $word:literal,)*
        }
    ) => {
        $(#[$attribute])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
        pub enum $name {
            $($(#[$note])* #[serde(rename = $word)] $variant,)*
        }

        impl $name {
            /// All variants, in order.
            pub const ALL: [Self; [$($word),*].len()] = [$(Self::$variant),*];

            /// The name in files and flags.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)*
                }
            }
        }

        impl $crate::spec::key::Typed for $name {
            const KIND: $crate::spec::key::Kind = $crate::spec::key::Kind::Word;
            const WORDS: &'static [&'static str] = &[$($word),*];
        }
    };
}

/// Declares the plan itself: its sections in order, and what each is about.
macro_rules! plan {
    (
        $(#[$attribute:meta])*
        pub struct $name:ident {
            $($section:ident: $type:ty = $about:literal;)*
            ..
            $(#[$note:meta])*
            pub $rest:ident: $rest_type:ty,
        }
    ) => {
        $(#[$attribute])*
        #[derive(Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub struct $name {
            $(
                #[doc = concat!("`[", stringify!($section), "]`: ", $about, ".")]
                #[serde(skip_serializing_if = "is_default")]
                pub $section: $type,
            )*
            $(#[$note])*
            #[serde(skip_serializing_if = "Vec::is_empty")]
            pub $rest: $rest_type,
        }

        /// The sections of a plan, in order.
        const SECTIONS: &[$crate::spec::key::KeySection] = &[$(
            $crate::spec::key::KeySection {
                name: stringify!($section),
                about: $about,
                keys: <$type as $crate::spec::declare::SectionKeys>::KEYS,
            },
        )*];

        impl $name {
            /// This plan, replaced by everything that `over` gives. A key hides those that it stands in place of. Phases are replaced as
            /// a whole.
            #[must_use]
            pub fn merge(&self, over: &Self) -> Self {
                let mut base = self.clone();
                for key in $crate::spec::keys::KEYS.iter().filter(|key| over.gives(key)) {
                    key.instead_of.iter().for_each(|other| base.clear(other));
                }
                Self {
                    $($section: base.$section.merge(&over.$section),)*
                    $rest: if over.$rest.is_empty() { base.$rest } else { over.$rest.clone() },
                }
            }

            /// Whether a key is given.
            #[must_use]
            pub fn gives(&self, key: &$crate::spec::key::Key) -> bool {
                use $crate::spec::declare::SectionKeys;
                match key.section() {
                    $(stringify!($section) => self.$section.gives(key.name()),)*
                    _ => false,
                }
            }

            /// Calls `change` for each file or folder that the plan names, with its key.
            pub fn each_file(&mut self, mut change: impl FnMut(&'static $crate::spec::key::Key, &mut String)) {
                use $crate::spec::declare::SectionKeys;
                let files = |key: &&$crate::spec::key::Key| key.kind == $crate::spec::key::Kind::File;
                for key in $crate::spec::keys::KEYS.iter().filter(files) {
                    let named = match key.section() {
                        $(stringify!($section) => self.$section.text(key.name()),)*
                        _ => None,
                    };
                    if let Some(name) = named {
                        change(key, name);
                    }
                }
            }

            fn clear(&mut self, path: &str) {
                use $crate::spec::declare::SectionKeys;
                if let Some((section, name)) = path.split_once('.') {
                    match section {
                        $(stringify!($section) => self.$section.clear(name),)*
                        _ => {}
                    }
                }
            }
        }
    };
}

/// Declares what a phase may change: keys of the sections, by section and name, each with the type that it has there.
macro_rules! phase {
    (
        $(#[$attribute:meta])*
        pub struct $name:ident {
            $($section:ident.$field:ident: $type:ty,)*
        }
    ) => {
        $(#[$attribute])*
        #[derive(Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub struct $name {
            $(
                #[doc = concat!("`", stringify!($section), ".", stringify!($field), "` in this phase.")]
                #[serde(skip_serializing_if = "Option::is_none")]
                pub $field: Option<$type>,
            )*
        }

        /// The dotted paths of the keys that a phase may change.
        pub(super) const PHASE_KEYS: &[&str] =
            &[$(concat!(stringify!($section), ".", stringify!($field)),)*];

        impl $name {
            /// What the phase gives, as a layer over the plan.
            fn layer(&self) -> PlanSpec {
                let mut layer = PlanSpec::default();
                $(layer.$section.$field.clone_from(&self.$field);)*
                layer
            }
        }
    };
}

pub(crate) use {phase, plan, section, words};
