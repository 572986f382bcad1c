//! Type-erased models, as registries store them and the simulator calls them.

/// Defines a trait for models of any type, and implements the model for a box of that trait, so
/// that a model from a registry can be wrapped.
///
/// Each method of the model stands with its erased name: first those that take the memory.
macro_rules! erased {
    (
        $(#[$meta:meta])*
        $visible:vis trait $any:ident for $model:ident {
            with memory { $(
                $method:ident as $any_method:ident($($argument:ident: $type:ty),*) -> $result:ty;
            )* }
            without { $(
                $plain:ident as $any_plain:ident($($own:ident: $kind:ty),*) -> $returned:ty;
            )* }
        }
    ) => {
        $(#[$meta])*
        $visible trait $any: blox_core::AnyPolicy {
            $(
                #[doc = concat!("See [`", stringify!($model), "::", stringify!($method), "`].")]
                fn $any_method(
                    &self,
                    memory: &mut blox_core::AnyMemory,
                    $($argument: $type),*
                ) -> $result;
            )*
            $(
                #[doc = concat!("See [`", stringify!($model), "::", stringify!($plain), "`].")]
                fn $any_plain(&self, $($own: $kind),*) -> $returned;
            )*
        }

        impl<M: $model> $any for M {
            $(
                fn $any_method(
                    &self,
                    memory: &mut blox_core::AnyMemory,
                    $($argument: $type),*
                ) -> $result {
                    self.$method(memory.own::<M>(), $($argument),*)
                }
            )*
            $(
                fn $any_plain(&self, $($own: $kind),*) -> $returned {
                    self.$plain($($own),*)
                }
            )*
        }

        blox_core::erased_policy!(Box<dyn $any>);

        impl $model for Box<dyn $any> {
            $(
                fn $method(
                    &self,
                    memory: &mut blox_core::AnyMemory,
                    $($argument: $type),*
                ) -> $result {
                    (**self).$any_method(memory, $($argument),*)
                }
            )*
            $(
                fn $plain(&self, $($own: $kind),*) -> $returned {
                    (**self).$any_plain($($own),*)
                }
            )*
        }
    };
}
pub(crate) use erased;
