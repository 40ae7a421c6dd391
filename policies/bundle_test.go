package policies

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/termguard/termguard/internal/bundletest"
)

const (
	rule     = "package termguard.a\n"
	sentence = "correct horse battery staple"
)

func secretKey(t testing.TB, secret string) *Key {
	t.Helper()
	key, err := ReadKey(bundletest.KeyFile(t, secret), "HS256")
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func TestBundle(t *testing.T) {
	plain := map[string]string{"/rules/a/a.rego": rule}
	signed := bundletest.Archive(t, sentence, plain)
	key := secretKey(t, sentence)
	for name, tc := range map[string]struct {
		reason  string
		archive []byte
		key     *Key
		err     string // "" where it is taken
	}{
		"Plain":        {"Nobody wants signatures.", bundletest.Archive(t, "", plain), nil, ""},
		"Signed":       {"By the key that is named.", signed, key, ""},
		"Library":      {"It was built with the library beside it.", bundletest.Archive(t, "", map[string]string{"/a/a.rego": rule, "/termguard.rego": "package termguard\n", "/lib/request/request.rego": "package termguard.lib.request\n"}), nil, ""},
		"NoKey":        {"Who signs wants it checked.", signed, nil, "--verification-key"},
		"NotSigned":    {"Anybody could have made it.", bundletest.Archive(t, "", plain), key, "the bundle is not signed: "},
		"OtherKey":     {"Somebody else signed it.", signed, secretKey(t, "another"), "not signed with this key: "},
		"OtherContent": {"The signature is of other files.", bundletest.Archive(t, sentence, plain, "x := 1\n"), key, "digest mismatch"},
		"NoFolder":     {"A policy has a folder.", bundletest.Archive(t, "", map[string]string{"/a.rego": rule}), nil, "FOLDER/FILE.rego"},
		"Twice":        {"One would hide the other.", bundletest.Archive(t, "", map[string]string{"/x/a/a.rego": rule, "/y/a/a.rego": rule}), nil, "two of its files are a/a.rego"},
		"Nothing":      {"The key is not the intended one.", bundletest.Archive(t, "", nil), nil, "no policies"},
		"Broken":       {"It is no Rego.", bundletest.Archive(t, "", map[string]string{"/a/a.rego": "package"}), nil, "rego_parse_error"},
		"Truncated":    {"The download was cut off.", signed[:len(signed)/2], key, "unexpected EOF"},
		"NoArchive":    {"It is a file of something else.", []byte(rule), nil, "opa build"},
		"Bomb":         {"It is small, and unpacks to much.", bundletest.Archive(t, "", map[string]string{"/a/a.rego": rule + strings.Repeat("#", MaxBundle)}), nil, "more than 4194304 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			files, err := UnpackBundle(tc.archive, tc.key)
			switch {
			case tc.err == "" && (err != nil || len(files) != 1 || string(files["a/a.rego"].Data) != rule):
				t.Errorf("%s %v: got %v", tc.reason, err, files)
			case tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)):
				t.Errorf("%s got %v, want an error with %q", tc.reason, err, tc.err)
			}
		})
	}
}

func TestReadKey(t *testing.T) {
	if _, err := ReadKey(filepath.Join(t.TempDir(), "none"), "RS256"); err == nil || !strings.Contains(err.Error(), "key of bundles") {
		t.Errorf("a file that is not there: %v", err)
	}
	if _, err := ReadKey(bundletest.KeyFile(t, " "), "HS256"); err == nil || !strings.Contains(err.Error(), "is empty") {
		t.Errorf("a public secret: %v", err)
	}
	private := "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"
	if _, err := ReadKey(bundletest.KeyFile(t, private), "RS256"); err == nil || !strings.Contains(err.Error(), "private key") {
		t.Errorf("the key of who signs: %v", err)
	}
	if _, err := ReadKey("none", "ROT13"); err == nil || !strings.Contains(err.Error(), `"ROT13" is no algorithm`) {
		t.Errorf("an unknown algorithm: %v", err)
	}
}

func FuzzBundle(f *testing.F) {
	plain := map[string]string{"/a/a.rego": rule}
	f.Add(bundletest.Archive(f, "", plain))
	f.Add(bundletest.Archive(f, sentence, plain))
	f.Add([]byte(rule))
	key := secretKey(f, sentence)
	f.Fuzz(func(t *testing.T, archive []byte) {
		if files, err := UnpackBundle(archive, nil); err == nil && len(files) == 0 {
			t.Error("neither policies nor an error")
		}
		_, _ = UnpackBundle(archive, key)
	})
}
