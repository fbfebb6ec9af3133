// Reads documents, one JSON a line, and prints for each the issues that the official registry's validators have with
// it, as a list in one line of JSON. The module's path lets it import their internal package.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"log"
	"os"

	"github.com/modelcontextprotocol/registry/internal/config"
	"github.com/modelcontextprotocol/registry/internal/validators"
	apiv0 "github.com/modelcontextprotocol/registry/pkg/api/v0"
)

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<24)
	out := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		var server apiv0.ServerJSON
		issues := []string{}
		if err := json.Unmarshal(lines.Bytes(), &server); err != nil {
			issues = append(issues, err.Error())
		}
		for _, issue := range validators.ValidateServerJSON(&server, validators.ValidationAll).Issues {
			issues = append(issues, issue.Path+": "+issue.Message)
		}
		// publishing also asks the package registries, which is off here
		if err := validators.ValidatePublishRequest(context.Background(), server, &config.Config{}); err != nil {
			issues = append(issues, err.Error())
		}
		if err := out.Encode(issues); err != nil {
			log.Fatal(err)
		}
	}
	if err := lines.Err(); err != nil {
		log.Fatal(err)
	}
}
