package policies

import (
	"bytes"
	"compress/gzip"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
	"testing/fstest"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/bundle"
	"github.com/open-policy-agent/opa/v1/keys"
)

// Packages that may be beside policies, for other tools.
var sharedPath, libraryPath = ast.MustParseRef("data.termguard"), ast.MustParseRef("data.termguard.lib")

// MaxBundle bounds an OPA bundle, packed and unpacked, in bytes.
const MaxBundle = 4 << 20

// Key verifies the signatures of bundles. Without one, only unsigned bundles are accepted.
type Key = bundle.VerificationConfig

// keyID names the only key, whatever a signature calls it.
const keyID = "default"

// ReadKey reads a key in PEM, or the secret of an algorithm such as HS256, named as in opa sign.
func ReadKey(file, algorithm string) (*Key, error) {
	if !keys.IsSupportedAlgorithm(algorithm) {
		return nil, fmt.Errorf("%q is no algorithm that bundles are signed with: RS256 and ES256 are", algorithm)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the key of bundles: %w", err)
	}
	if strings.TrimSpace(string(text)) == "" {
		return nil, fmt.Errorf("read the key of bundles: %s is empty: with an empty secret, anyone could sign", file)
	}
	if block, _ := pem.Decode(text); block != nil && strings.HasSuffix(block.Type, "PRIVATE KEY") {
		return nil, fmt.Errorf("read the key of bundles: %s is a private key, which only the signer should have: name the public one (openssl pkey -in %s -pubout)", file, file)
	}
	key := &keys.Config{Key: strings.TrimSpace(string(text)), Algorithm: algorithm}
	return bundle.NewVerificationConfig(map[string]*keys.Config{keyID: key}, keyID, "", nil), nil
}

// UnpackBundle returns an OPA bundle (https://www.openpolicyagent.org/docs/management-bundles) for Load,
// without its data: FOLDER/FILE.rego may be at any depth.
func UnpackBundle(archive []byte, key *Key) (fstest.MapFS, error) {
	if len(archive) > MaxBundle {
		return nil, fmt.Errorf("it is larger than %d bytes", MaxBundle)
	}
	// The reader bounds each file, but not their sum.
	unzipped, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		return nil, fmt.Errorf("it is no archive that opa build makes: %w", err)
	}
	if n, err := io.Copy(io.Discard, io.LimitReader(unzipped, MaxBundle+1)); err != nil {
		return nil, fmt.Errorf("unpack it: %w", err)
	} else if n > MaxBundle {
		return nil, fmt.Errorf("it unpacks to more than %d bytes", MaxBundle)
	}
	b, err := bundle.NewReader(bytes.NewReader(archive)).WithBundleVerificationConfig(key).WithSizeLimitBytes(MaxBundle).Read()
	switch {
	case err != nil && key == nil:
		return nil, fmt.Errorf("%w (a bundle that is signed needs --verification-key)", err)
	case err != nil && strings.Contains(err.Error(), "missing .signatures.json"):
		return nil, fmt.Errorf("the bundle is not signed: sign it with opa sign or opa build --signing-key: %w", err)
	case err != nil && strings.Contains(err.Error(), "failed to verify JWT signature"):
		return nil, fmt.Errorf("the bundle is not signed with this key: %w", err)
	case err != nil:
		return nil, err
	}
	files := fstest.MapFS{}
	for _, module := range b.Modules {
		if of := module.Parsed.Package.Path; of.HasPrefix(libraryPath) || of.Equal(sharedPath) {
			continue // always present
		}
		folder := path.Base(path.Dir(path.Join("/", module.Path)))
		if folder == "/" {
			return nil, fmt.Errorf("%s lies in no folder: a policy is FOLDER/FILE.rego", module.Path)
		}
		at := path.Join(folder, path.Base(module.Path))
		if files[at] != nil {
			return nil, fmt.Errorf("two of its files are %s", at)
		}
		files[at] = &fstest.MapFile{Data: module.Raw}
	}
	if len(files) == 0 {
		return nil, errors.New("it holds no policies")
	}
	return files, nil
}
