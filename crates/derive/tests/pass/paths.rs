//! The crate is found by itself, or by the path given; the names of Rust's
//! prelude and of the model are the user's to take.

use marmota_derive as macros;

mod facade {
    pub use marmota_model as model;
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
    pub struct Shadowed {
        pub id: i64,
        #[model(max = 4, default = "a", check = ok)]
        pub name: ::std::option::Option<String>,
    }

    fn ok(_: &str) -> ::std::result::Result<(), String> {
        Ok(())
    }
}

#[derive(macros::Model)]
#[model(crate = "crate::facade::model")]
pub struct Explicit {
    pub id: i64,
    pub size: Size,
}

#[derive(macros::ModelEnum)]
#[model(crate = "facade::model")]
pub enum Size {
    Small,
    Large,
}

// As a macro of the user's own may write it.
macro_rules! made {
    ($name:ident, $table:literal, $default:literal, $of:ty) => {
        #[derive(macros::Model)]
        #[model(table = $table)]
        pub struct $name {
            pub id: i64,
            #[model(default = $default)]
            pub number: $of,
        }
    };
}

made!(Made, "made", 7, i32);

fn main() {
    use marmota_model::Model;
    assert_eq!(shadowed::Shadowed::schema().fields.len(), 2);
    assert_eq!(Explicit::TABLE, "explicit");
    assert_eq!(Made::TABLE, "made");
    let _ = [Size::Small, Size::Large];
}
