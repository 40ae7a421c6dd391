package answer

import (
	"context"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/cluster/live"
	"github.com/termguard/termguard/question"
)

// Certificates verifies the certificates of webhooks that the deletion of subjects depends on, for nil of all, with
// the user's rights and without connecting to them, unless something tried before. Unseen ones change no verdict.
func (s Session) Certificates(ctx context.Context, world *cluster.World, subjects []Subject) (unseen []string, err error) {
	var requests []*question.Request
	for _, subject := range subjects {
		requests = append(requests, subject.requests(s.Options)...)
	}
	if subjects != nil && requests == nil {
		return nil, nil
	}
	try, err := live.Stored(s.Config, world.Options().Now)
	if err != nil {
		return nil, err
	}
	world.TryCertificates(ctx, try, requests)
	world.Settle()
	return world.Unverified(requests), ctx.Err()
}

func asNotes(unseen []string) (notes []string) {
	for _, what := range unseen {
		notes = append(notes, "unseen: "+what)
	}
	return notes
}

// requests returns the requests that webhooks see: by the user, and by the owner of finalizers.
func (s Subject) requests(options map[string]any) (all []*question.Request) {
	if !s.Terminating() || s.Type.GroupResource() == question.Namespaces {
		all = append(all, s.Deletion(options))
	}
	after := &unstructured.Unstructured{Object: s.Object}
	if len(after.GetFinalizers()) > 0 {
		owner := s.target()
		owner.User = authenticationv1.UserInfo{} // unknown
		after = after.DeepCopy()
		after.SetFinalizers(nil)
		all = append(all, owner.Edit(after.Object))
	}
	return all
}
