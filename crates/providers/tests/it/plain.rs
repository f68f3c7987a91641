//! Providers with OAuth2, without OpenID Connect.

use marmota_auth::{ProviderAnswer, SignUpPolicy};
use marmota_model::ErrorKind;
use serde_json::json;

use crate::sign_in::{client, shops};

#[test]
fn a_person_is_read_from_the_api() {
    for shop in shops(&SignUpPolicy::Open) {
        let sign_in = |emails: serde_json::Value| {
            let start = shop.auth.begin_sign_in("plain", None, None, client()).unwrap();
            let url = url::Url::parse(&start.url).unwrap();
            let state = url.query_pairs().find(|(name, _)| name == "state").unwrap().1.into_owned();
            shop.issuer.answers(json!({ "access_token": "t" }));
            shop.issuer.person(json!({ "id": 7, "email": "forged@example.org" }), emails);
            let answer = ProviderAnswer {
                state: &state,
                provider_code: "code",
                browser: Some(&start.browser),
                ..ProviderAnswer::default()
            };
            shop.auth.finish_sign_in(&answer, client())
        };
        let one = |verified| {
            json!([
                { "email": "second@example.org", "primary": false, "verified": true },
                { "email": "ann@example.org", "primary": true, "verified": verified },
            ])
        };
        assert_eq!(sign_in(one(false)).unwrap_err().kind(), ErrorKind::Denied);
        assert_eq!(sign_in(json!({ "message": "no" })).unwrap_err().kind(), ErrorKind::Denied);
        let user = sign_in(one(true)).unwrap().login.unwrap().user;
        let users = shop.auth.users().unwrap();
        let user = users.iter().find(|one| one.id == user).unwrap();
        assert_eq!(user.email.as_deref(), Some("ann@example.org"));
        assert!(shop.issuer.form().contains("client_secret=hush"));
    }
}
