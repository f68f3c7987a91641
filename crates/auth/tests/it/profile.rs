//! Fields of users that are the application's own: made with the account, or not at all.

use std::sync::{Arc, Mutex};

use marmota_auth::{AccountMail, AccountMailer, Auth, Settings, SignUpPolicy};
use marmota_model::{
    Error, ErrorKind, Field, KeyKind, Kind, Literal, Result, Role, Rule, Schema, Value,
};
use marmota_store::rights::{Grant, Right};
use marmota_store::{Store, StoreBuilder, Transaction};

use crate::databases::databases;
use crate::{PASSWORD, refused, user};

/// Keeps the mails that were requested.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<AccountMail>>>);

impl AccountMailer for Kept {
    fn enqueue(&self, _: &Transaction, mail: &AccountMail) -> Result<()> {
        self.0.lock().unwrap().push(mail.clone());
        Ok(())
    }
}

/// The two kinds of references to a user: that of programs, and that of application files.
fn owners() -> [Kind; 2] {
    [Kind::Reference { table: "marmota_user".into(), key: KeyKind::Auto }, Kind::I64]
}

fn profile(owner: Kind) -> Schema {
    let name = Field::new("display_name", Kind::TEXT).rules(vec![Rule::NotEmpty]);
    let fields = vec![
        Field::new("id", Kind::I64).role(Role::Key),
        Field::new("user", owner).unique(true),
        name,
        Field::new("locale", Kind::TEXT).default(Literal::Text("en".into())),
        Field::new("is_paying", Kind::Bool).default(Literal::Bool(false)),
    ];
    Schema::new("profile", fields)
}

struct Shop {
    store: Store,
    auth: Auth,
    kept: Kept,
}

impl Shop {
    fn new(builder: StoreBuilder, owner: Kind, settings: Settings) -> Self {
        let store = marmota_auth::models(builder.schema(profile(owner))).open().unwrap();
        let kept = Kept::default();
        let settings = settings.password_cost(64, 1).sign_up(SignUpPolicy::Open);
        let settings = settings.mailer(kept.clone()).profile("profile");
        let auth = Auth::new(&store, settings).unwrap();
        Self { store, auth, kept }
    }

    /// Returns the token of a link for this address.
    fn token(&self, address: &str) -> String {
        self.auth.request_sign_up(address, "", None).unwrap();
        let mail = self.kept.0.lock().unwrap().pop().unwrap();
        let url = self.auth.prepare_mail(&mail).unwrap().unwrap().url.unwrap();
        url.rsplit('/').next().unwrap().to_owned()
    }

    fn join(&self, token: &str, profile: Option<&str>) -> Result<i64> {
        self.auth.join_with_profile(token, None, PASSWORD, profile, None)
    }

    fn profiles(&self, of: &Store) -> usize {
        of.list_records(&self.store.table("profile").unwrap()).run().unwrap().len()
    }
}

/// The rights of users on their own profile, except for what they pay.
fn own() -> Settings {
    let own = Grant::new("profile", &[Right::Read, Right::Insert, Right::Update]);
    Settings::default().everyone([own.rule("user = @user.id").except(["is_paying"])])
}

#[track_caller]
fn names(error: &Error, field: &str) {
    assert!(error.violations().iter().any(|one| one.field == field), "{error:?}");
}

#[test]
fn a_new_user_has_the_values_of_the_sign_up() {
    for (number, database) in databases().enumerate() {
        // Each database has one of the two tables.
        let shop = Shop::new(database.builder(), owners()[number % 2].clone(), own());
        let form = shop.auth.profile_form().unwrap();
        assert!(form.find_written("locale").is_some() && form.find_written("is_paying").is_none());
        let token = shop.token("ann@example.org");
        let users = shop.auth.users().unwrap().len();
        for (values, field) in [
            (r#"{"display_name":""}"#, "display_name"),
            (r#"{"display_name":"Ann","age":7}"#, "age"),
            (r#"{"display_name":"Ann","user":1}"#, "user"),
            (r#"{"display_name":"Ann","is_paying":true}"#, "is_paying"),
            ("{}", "display_name"),
        ] {
            let error = shop.join(&token, Some(values)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{values}: {error}");
            names(&error, field);
        }
        refused(shop.join(&token, None), ErrorKind::Invalid);
        refused(shop.join(&token, Some("[]")), ErrorKind::Invalid);
        // Neither a user nor a row is left, and the link is not used up.
        assert_eq!(shop.auth.users().unwrap().len(), users);
        assert_eq!(shop.profiles(&shop.store), 0);
        let ann = shop.join(&token, Some(r#"{"display_name":"Ann"}"#)).unwrap();
        refused(shop.join(&token, Some(r#"{"display_name":"Ann"}"#)), ErrorKind::Unauthenticated);

        let login = shop.auth.login("ann@example.org", PASSWORD, None).unwrap();
        let hers = shop.auth.authenticate(&login.token).run().unwrap();
        assert_eq!(shop.profiles(hers.store()), 1);
        let data = shop.auth.personal_data(ann).unwrap();
        let row = &data.rows["profile"][0];
        assert_eq!((&row["display_name"], &row["locale"]), (&"Ann".into(), &"en".into()));
        let bob = user(&shop.auth, "bob");
        let login = shop.auth.login("bob", PASSWORD, None).unwrap();
        let his = shop.auth.authenticate(&login.token).run().unwrap();
        assert_eq!(shop.profiles(his.store()), 0);
        assert!(shop.auth.personal_data(bob).unwrap().rows["profile"].is_empty());

        // Bob was added by an administrator, and fills in his profile later. Ann's is not his to write.
        let table = shop.store.table("profile").unwrap();
        let mut record = marmota_model::Record::new(Arc::clone(&table));
        record.set("display_name", "Bob").unwrap();
        record.set("user", ann).unwrap();
        assert!(his.store().insert_record(&record).run().is_err());
        record.set("user", bob).unwrap();
        his.store().insert_record(&record).run().unwrap();
        shop.auth.delete_account(ann, PASSWORD, None, None).unwrap();
        let left = shop.store.list_records(&table).run().unwrap();
        assert_eq!(left.len(), 1);
        assert_eq!(left[0].value("user").unwrap(), &Value::Int(bob));
    }
}

#[test]
fn a_user_without_the_right_has_no_profile() {
    for owner in owners() {
        let memory = || Store::builder(marmota_memory::Memory::new());
        let shop = Shop::new(memory(), owner, Settings::default());
        assert!(shop.auth.profile_form().is_none());
        let token = shop.token("ann@example.org");
        let with_values = shop.join(&token, Some(r#"{"display_name":"Ann"}"#));
        assert!(with_values.is_err());
        shop.join(&token, None).unwrap();
        assert_eq!(shop.profiles(&shop.store), 0);
    }
}

#[test]
fn a_table_that_cannot_be_a_profile_is_refused() {
    let with = |schema: Schema, name: &str| {
        let builder = Store::builder(marmota_memory::Memory::new()).schema(schema);
        let store = marmota_auth::models(builder).open().unwrap();
        Auth::new(&store, Settings::default().profile(name)).map(drop)
    };
    refused(with(profile(Kind::I64), "profil"), ErrorKind::NotFound);
    with(profile(Kind::I64), "profile").unwrap();
    for owner in [Kind::TEXT, Kind::Reference { table: "profile".into(), key: KeyKind::Auto }] {
        refused(with(profile(owner), "profile"), ErrorKind::Invalid);
    }
    let mut schema = profile(Kind::I64);
    schema.fields.to_mut()[1].unique = false;
    let error = with(schema, "profile").unwrap_err();
    assert!(error.message().contains("unique and not null"), "{error}");
}
