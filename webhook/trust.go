package webhook

import "github.com/termguard/termguard/config"

// trustsObject tells whether annotations of the object of a request count.
func trustsObject(t config.Trust, r request) bool { return t.Place(r.within()) }

// trustsPerson tells whether whoever makes a request is among the subjects.
func trustsPerson(t config.Trust, r request) bool {
	user := child(r.raw, "userInfo")
	var groups []string
	all, _ := user["groups"].([]any)
	for _, group := range all {
		if name, ok := group.(string); ok {
			groups = append(groups, name)
		}
	}
	return t.Person(str(user, "username"), groups)
}
