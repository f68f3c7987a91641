//! The derives find the model crate, or use the path given. A program may use the names of Rust's
//! prelude and of the model for its own items.

use marmota_derive as macros;

mod facade {
    pub(crate) use marmota_model as model;
}

#[allow(dead_code, non_camel_case_types)]
mod shadowed {
    struct Option;
    struct Result;
    struct Cow;
    struct Field;
    struct Schema;
    struct Vec;
    struct Some_;
    mod std {}
    mod marmota_model {}

    #[derive(super::macros::Model)]
    pub(crate) struct Shadowed {
        pub id: i64,
        #[model(max = 4, default = "a", check = ok)]
        pub name: ::std::option::Option<String>,
    }

    fn ok(_: &str) -> ::std::result::Result<(), String> {
        Ok(())
    }
}

#[derive(macros::Model)]
#[model(crate = "crate::paths::facade::model")]
pub(crate) struct Explicit {
    pub id: i64,
    pub size: Size,
}

#[derive(macros::ModelEnum)]
#[model(crate = "facade::model")]
pub(crate) enum Size {
    Small,
    Large,
}

// A program's own macro may define models.
macro_rules! made {
    ($name:ident, $table:literal, $default:literal, $of:ty) => {
        #[derive(macros::Model)]
        #[model(table = $table)]
        pub(crate) struct $name {
            pub id: i64,
            #[model(default = $default)]
            pub number: $of,
        }
    };
}

made!(Made, "made", 7, i32);

#[test]
fn models_with_paths_and_shadowed_names() {
    use marmota_model::Model;
    assert_eq!(shadowed::Shadowed::schema().fields.len(), 2);
    assert_eq!(Explicit::TABLE, "explicit");
    assert_eq!(Made::TABLE, "made");
    let _ = [Size::Small, Size::Large];
}
