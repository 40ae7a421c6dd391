package policies

import (
	"context"
	"fmt"
	"strconv"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/storage"
)

// store reads data.cluster and data.params from plain maps, and converts only values that a rule reads. Facts
// come with the transaction, so that one compiled query serves any document.
type store struct {
	storage.Store
	params map[string]any
}

type view struct {
	storage.Transaction
	roots map[string]any
}

func (s *store) view(ctx context.Context, cluster map[string]any) (*view, error) {
	inner, err := s.NewTransaction(ctx)
	if err != nil {
		return nil, err
	}
	return &view{inner, map[string]any{"cluster": cluster, "params": s.params}}, nil
}

func (s *store) Abort(ctx context.Context, txn storage.Transaction) {
	if v, ok := txn.(*view); ok {
		txn = v.Transaction
	}
	s.Store.Abort(ctx, txn)
}

// Read returns an inner node whole, if lazily: OPA walks it, and would take "not found" for an empty one.
func (s *store) Read(ctx context.Context, txn storage.Transaction, path storage.Path) (any, error) {
	v, ok := txn.(*view)
	if !ok {
		return s.Store.Read(ctx, txn, path)
	}
	if len(path) == 0 {
		return ast.LazyObject(v.roots), nil
	}
	if _, owned := v.roots[path[0]]; !owned {
		return s.Store.Read(ctx, v.Transaction, path)
	}
	var node any = v.roots
	for _, key := range path {
		exists := false
		switch n := node.(type) {
		case map[string]any:
			node, exists = n[key]
		case Section:
			node = n.Get(key)
			exists = node != nil
		case []any:
			if i, err := strconv.Atoi(key); err == nil && i >= 0 && i < len(n) {
				node, exists = n[i], true
			}
		}
		if !exists {
			return nil, &storage.Error{Code: storage.NotFoundErr, Message: fmt.Sprintf("%v: document does not exist", path)}
		}
	}
	if m, ok := whole(node).(map[string]any); ok {
		return ast.LazyObject(m), nil
	}
	return ast.InterfaceToValue(node)
}
