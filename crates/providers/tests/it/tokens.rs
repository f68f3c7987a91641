//! Tokens of other issuers as credentials, and the forged ones.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use marmota_auth::{Proof, SignUpPolicy};
use marmota_model::{ErrorKind, Timestamp};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use serde_json::{Value, json};

use crate::issuer::{Key, unsigned};
use crate::sign_in::{Shop, shops};

fn now() -> i64 {
    Timestamp::now().micros() / 1_000_000
}

fn claims(shop: &Shop) -> Value {
    json!({
        "iss": format!("{}/named", shop.issuer.url), "aud": "api", "sub": "1", "exp": now() + 60,
        "email": "ann",
    })
}

#[test]
fn a_token_is_its_user_until_its_end() {
    for shop in shops(&SignUpPolicy::Open) {
        let ann = shop.user("ann");
        let token = shop.key.sign(&claims(&shop));
        let known = shop.auth.authenticate(&token).run().unwrap();
        assert_eq!((known.user(), known.proof()), (ann, Proof::Token));
        assert!(known.ends_at().is_some());
        // The second request needs neither the issuer nor the store, and the caller can be checked again.
        assert!(shop.auth.authenticate(&token).ready().is_some());
        assert_eq!(shop.auth.revalidate(&known).run().unwrap().user(), ann);
        assert_eq!(shop.issuer.requests("/keys"), 1);
        // It makes no keys and no JWTs.
        assert!(shop.auth.make_key(&known, "key", None).is_err() && shop.auth.jwt(&known).is_err());
        shop.auth.change_user(ann, None, None, Some(true)).unwrap();
        assert!(shop.auth.authenticate(&token).run().is_err());
        assert!(shop.auth.revalidate(&known).run().is_err());
    }
}

#[test]
fn forged_tokens_are_refused_and_kept_as_events() {
    for shop in shops(&SignUpPolicy::Open) {
        shop.user("ann");
        let good = claims(&shop);
        assert!(shop.auth.authenticate(&shop.key.sign(&good)).run().is_ok());
        let public = shop.key.public()["x"].as_str().unwrap().to_owned();
        let other = |name: &str, value: Value| {
            let mut claims = good.clone();
            claims[name] = value;
            shop.key.sign(&claims)
        };
        let with_head =
            |head: Value, signature: &str| format!("{}.{signature}", unsigned(&head, &good));
        // HS256 with the public key as its secret.
        let confused = jsonwebtoken::encode(
            &jsonwebtoken::Header::new(jsonwebtoken::Algorithm::HS256),
            &good,
            &jsonwebtoken::EncodingKey::from_secret(&URL_SAFE_NO_PAD.decode(&public).unwrap()),
        );
        let signed = shop.key.sign(&good);
        let signature = signed.rsplit('.').next().unwrap();
        for (token, reason) in [
            (with_head(json!({ "alg": "none" }), ""), "is not valid"),
            (confused.unwrap(), "algorithm"),
            (with_head(json!({ "alg": "HS256", "kid": "one" }), signature), "algorithm"),
            (with_head(json!({ "alg": "RS256", "kid": "one" }), signature), "key"),
            (Key::new("one").sign(&good), "wrong signature"),
            (Key::new("two").sign(&good), "key"),
            (other("aud", json!("other")), "another audience"),
            (other("iss", json!("https://evil.example")), "another issuer"),
            (other("exp", json!(now() - 120)), "expired"),
            (other("nbf", json!(now() + 600)), "not valid yet"),
            (other("email", json!("admin@example.org")), "not verified"),
            (other("email", json!("")), "name its user"),
            (other("email", json!("no one")), "no user belongs"),
        ] {
            let error = shop.auth.authenticate(&token).run().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unauthenticated, "{token}");
            let event = &shop.auth.security_events(None, Some("token-refused")).unwrap()[0];
            let kept = event.detail.0["reason"].as_str().unwrap();
            assert!(kept.contains(reason), "{reason}: {kept}");
        }
        let long = other("padding", json!("x".repeat(9000)));
        assert!(shop.auth.authenticate(&long).run().is_err());
        // Unknown keys are not fetched for each token.
        assert_eq!(shop.issuer.requests("/keys"), 1);
    }
}

#[test]
fn an_account_of_the_issuer_is_needed() {
    for shop in shops(&SignUpPolicy::Open) {
        let mut claims = claims(&shop);
        claims["iss"] = json!(shop.issuer.url);
        let error = shop.auth.authenticate(&shop.key.sign(&claims)).run().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unauthenticated);
    }
}

#[test]
fn a_token_with_es256_is_verified() {
    for shop in shops(&SignUpPolicy::Open) {
        let ann = shop.user("ann");
        let random = SystemRandom::new();
        let new_pair = || {
            let by = &ECDSA_P256_SHA256_FIXED_SIGNING;
            let document = EcdsaKeyPair::generate_pkcs8(by, &random).unwrap();
            EcdsaKeyPair::from_pkcs8(by, document.as_ref(), &random).unwrap()
        };
        let pair = new_pair();
        let (x, y) = pair.public_key().as_ref()[1..].split_at(32);
        let (x, y) = (URL_SAFE_NO_PAD.encode(x), URL_SAFE_NO_PAD.encode(y));
        let key = json!({ "kty": "EC", "crv": "P-256", "kid": "es", "use": "sig", "x": x, "y": y });
        shop.issuer.documents(vec![key]);
        let text = unsigned(&json!({ "alg": "ES256", "typ": "JWT", "kid": "es" }), &claims(&shop));
        let signed = |pair: &EcdsaKeyPair| {
            let signature = pair.sign(&random, text.as_bytes()).unwrap();
            format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature))
        };
        assert_eq!(shop.auth.authenticate(&signed(&pair)).run().unwrap().user(), ann);
        let error = shop.auth.authenticate(&signed(&new_pair())).run().unwrap_err();
        assert!(error.message().contains("wrong signature"), "{error}");
    }
}
