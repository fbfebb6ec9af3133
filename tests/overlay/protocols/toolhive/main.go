// Prints, as one line of JSON, what ToolHive's registry client reads from the registry whose URL is the argument.
package main

import (
	"context"
	"encoding/json"
	"log"
	"os"

	"github.com/stacklok/toolhive/pkg/registry/api"
)

func main() {
	ctx := context.Background()
	client, err := api.NewClient(os.Args[1], true, nil)
	check(err)
	check(client.ValidateEndpoint(ctx))
	all, err := client.ListServers(ctx, &api.ListOptions{Limit: 3})
	check(err)
	titles := make([]string, len(all))
	for i, server := range all {
		titles[i] = server.Title
	}
	since, err := client.ListServers(ctx, &api.ListOptions{Limit: 3, UpdatedSince: "2020-01-01T00:00:00Z"})
	check(err)
	hits, err := client.SearchServers(ctx, os.Args[2])
	check(err)
	one, err := client.GetServer(ctx, hits[0].Name)
	check(err)
	_, missing := client.GetServer(ctx, "network.a2b.000000000000/nobody")
	check(json.NewEncoder(os.Stdout).Encode(map[string]any{
		"titles": titles, "since": len(since), "hits": hits, "one": one, "missing": missing.Error(),
	}))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
