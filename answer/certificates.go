package answer

import (
	"context"
	"fmt"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/question"
)

// certificates verifies the certificates of webhooks that fail closed, without connecting to them: by tls.crt
// alone of the Secret that their pods mount, read with the user's rights and not kept.
func (s Session) certificates(ctx context.Context, world *cluster.World, subjects []Subject) (unseen []string, err error) {
	core, err := typedcorev1.NewForConfig(s.Config)
	if err != nil {
		return nil, fmt.Errorf("connect for certificates: %w", err)
	}
	looked := map[cluster.Endpoint]bool{}
	for _, subject := range subjects {
		for _, request := range subject.requests(s.Options) {
			for _, of := range world.Untried(request) {
				if looked[of.Endpoint] {
					continue
				}
				looked[of.Endpoint] = true
				if why := verify(ctx, core, world, of); why != "" {
					unseen = append(unseen, fmt.Sprintf("unseen: certificate of webhook %s: %s", of.Webhook[strings.Index(of.Webhook, "/")+1:], why))
				}
			}
		}
	}
	world.Settle()
	return unseen, ctx.Err()
}

// requests returns the requests that webhooks see: by the user, and by the owner of finalizers.
func (s Subject) requests(options map[string]any) (all []*question.Request) {
	if !s.Terminating() {
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

func verify(ctx context.Context, core typedcorev1.SecretsGetter, world *cluster.World, of cluster.Untried) (why string) {
	service := of.Service()
	why = fmt.Sprintf("the pods of Service %s mount no Secret", service)
	for _, name := range of.Secrets {
		secret, err := core.Secrets(service.Namespace).Get(ctx, name, metav1.GetOptions{})
		switch {
		case err != nil:
			why = reasonOf(err)
		case world.TakeCertificate(of.Endpoint, service.Namespace+"/"+name, secret.Data[corev1.TLSCertKey]):
			return ""
		default:
			why = fmt.Sprintf("Secret %s/%s has no tls.crt for Service %s", service.Namespace, name, service)
		}
	}
	return why
}
