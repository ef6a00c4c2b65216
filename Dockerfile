# The image of cluster.yaml and of the manifests for Kubernetes, CPU and GPU nodes alike: the PyPI build of torch
# brings CUDA. From the root of the repository:
#     docker build -t REGISTRY/rayner:0.1.0 . && docker push REGISTRY/rayner:0.1.0
# Checked by hadolint; it was never built where this was written.
FROM rayproject/ray:2.60.0-py311
WORKDIR /home/ray/rayner
COPY --chown=ray:users . .
# faiss-cpu searches on GPU nodes too; faiss-gpu beside it would break both.
# The head of `ray up` starts instances with boto3.
RUN pip install --no-cache-dir --use-pep517 -c constraints.txt boto3 \
        -e ".[cpu,offline,coreference,ontology,track,spacy]" \
    && python -c "import ray.autoscaler._private.aws.node_provider"
